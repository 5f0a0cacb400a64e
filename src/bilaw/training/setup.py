"""Everything a run is made of, from its settings: the same after a resume as at the start."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from bilaw import sealed
from bilaw.config import SINGLE_STEP, Config
from bilaw.datasets.data import Dataset
from bilaw.models.door import check_batch, check_derivative, check_model
from bilaw.net import Net
from bilaw.settings import parse, to_toml
from bilaw.training.average import Average
from bilaw.training.build import build_loss, build_method, build_weighting
from bilaw.training.feed import digest, feed
from bilaw.training.history import Seen
from bilaw.training.state import State
from bilaw.weighting import Learned, Omega, Uniform

TRIED = 8  # images the model is tried on at the door


class Setup:
    """A model on its device, its batches, its optimiser, its weighting, and all that changes as they meet."""

    def __init__(self, module: nn.Module, data: Dataset, config: Config) -> None:
        compute, optim = config.compute, config.optim
        device = torch.device(compute.device or "cpu")
        self.config, self.classes, self.device = config, len(data.classes), device
        self.feed = feed(data.train, self.classes, data.augment, config, device)
        self.net = Net(
            module.to(device),
            bf16=compute.precision == "bf16",
            channels_last=bool(compute.channels_last),
            compile=compute.compile,
        )
        self.notes = [*data.notes, *self.feed.notes, *self._try_model()]
        self.optimizer = torch.optim.SGD(
            self.net.theta.values(), lr=optim.lr, momentum=optim.momentum, weight_decay=optim.weight_decay
        )
        if optim.clip is not None:
            self._clip(optim.clip)
        self.weighting = build_weighting(config, self.classes, device)
        build_method(config, self.weighting.scheme)  # refuses what does not go together, before the first epoch
        self.average = Average(self.net, optim.ema) if optim.ema is not None else None
        self.learned = self.weighting.scheme if isinstance(self.weighting.scheme, Learned) else None
        self.state = State(self.net, self.optimizer, self.learned, self.average)
        self.seen = Seen(len(data.train.y), device, self.omega)
        self.identity = {
            "data": digest(data.train),
            "model": _digest("".join(f"{name} {tuple(p.shape)}" for name, p in self.net.theta.items())),
            "config": identity(config),
        }
        if self.omega and not self.learned:
            self.identity["scheme.network"] = sealed.digest(self.omega.network.state_dict())

    def write_down(self, config: Config) -> None:
        """Take the settings in the words of the run's folder."""
        self.config, self.identity["config"] = config, identity(config)

    def _try_model(self) -> list[str]:
        x = self.feed.train.at(0, 0).x[:TRIED]
        notes = check_model(self.net, x, self.classes)
        if self.feed.meta:
            check_derivative(self.net, x, self.config.meta.derivative)
        for setting, batches in (("optim.batch", self.feed.train), ("meta.batch", self.feed.meta)):
            if batches and batches.smallest < len(x):
                check_batch(self.net, x[: batches.smallest], setting)
        return notes

    @property
    def weighs(self) -> bool:
        """Tell whether samples ever weigh differently."""
        return not isinstance(self.weighting.scheme, Uniform)

    @property
    def omega(self) -> Omega | None:
        """Return the weight network and what it looks at, where one is used."""
        scheme = self.weighting.scheme
        return scheme.omega if isinstance(scheme, Learned) else scheme if isinstance(scheme, Omega) else None

    def about_omega(self) -> dict[str, str]:
        """Return what a saved weight network has to be told about, beside its weights."""
        omega = self.omega
        return {"features": omega.features, "margin_from": omega.margin_from} if omega else {}

    def one_step_roles(self, switched: tuple[str, ...]) -> tuple[str, ...]:
        """Return the roles that attack with a single step: "attack", "meta.attack"."""
        config = self.switched(switched)
        loss, meta = config.loss, config.meta
        held = {"attack": (loss, config.attack.name)}
        if config.scheme.learns:
            held["meta.attack"] = (replace(loss, name=meta.loss or loss.name), meta.attack or config.attack.name)
        return tuple(role for role, (loss, name) in held.items() if name in SINGLE_STEP and build_loss(loss).attacked)

    def switched(self, roles: tuple[str, ...]) -> Config:
        """Return the settings with PGD in the roles whose one-step attack overfitted."""
        config = self.config
        if "attack" in roles:
            config = replace(config, attack=replace(config.attack, name="pgd"))
        if "meta.attack" in roles:
            config = replace(config, meta=replace(config.meta, attack="pgd"))
        return config

    def _clip(self, most: float) -> None:
        def clip(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
            nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], most)

        self.optimizer.register_step_pre_hook(clip)


def identity(config: Config) -> str:
    """Return a hash of the settings' names and values, as a file holds them; what is said of them may change."""
    return _digest(json.dumps(parse(to_toml(config)), sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
