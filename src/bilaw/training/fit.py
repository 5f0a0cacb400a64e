"""The training loop."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bilaw.algorithm import Record, bilaw_step, weighted_step
from bilaw.attacks import PGD
from bilaw.config import Config
from bilaw.datasets.batches import Batches
from bilaw.datasets.data import Images
from bilaw.datasets.splits import split
from bilaw.datasets.stores import store
from bilaw.evaluation.accuracy import correct
from bilaw.net import Net
from bilaw.training.build import build_method, build_weighting
from bilaw.training.schedule import SCHEDULES
from bilaw.types import MetaScheme
from bilaw.weighting import Omega


class Epoch(NamedTuple):
    """What one epoch came to; accuracies are fractions of the *select* split."""

    epoch: int
    loss: float
    clean: float
    robust: float
    ess: float  # effective sample size of the weights, 1 / (B sum w^2), averaged over the batches


class Result(NamedTuple):
    """A trained classifier: the parameters of its best epoch on *select*."""

    model: nn.Module
    best: Epoch
    history: list[Epoch]
    omega: Omega | None  # the weight network, where one was learned


class Watch(NamedTuple):
    """Who is told what happens, as it happens."""

    step: Callable[[int, int], None]  # (steps done, steps in all)
    epoch: Callable[[Epoch], None]


def fit(model: nn.Module, data: Images, classes: int, config: Config, watch: Watch | None = None) -> Result:
    """Train `model` in place on `data`, and leave it at its best epoch.

    The two held-out splits come out of `data`: *meta* for schemes that learn (others train on it), *select* for
    choosing the epoch. There is no way to hand over test data.
    """
    parts = split(data.y, classes, meta=None if config.scheme.learns else 0, seed=0)
    held = store(data)
    train = Batches(held, parts.train, size=config.optim.batch, seed=config.seed, purpose="train")
    meta = None
    if config.scheme.learns:
        meta = Batches(
            held, parts.meta, size=config.meta.batch, seed=config.seed, purpose="meta", least=config.meta.batch
        )
    net, optim = Net(model), config.optim
    optimizer = torch.optim.SGD(
        net.theta.values(), lr=optim.lr, momentum=optim.momentum, weight_decay=optim.weight_decay
    )
    weighting = build_weighting(config, classes)
    select = Images(data.x[parts.select], data.y[parts.select])
    judge = PGD(config.attack.eps, config.attack.norm, steps=10)
    history: list[Epoch] = []
    best: tuple[Epoch, dict[str, Tensor]] | None = None
    total, t = optim.epochs * len(train), 0
    for epoch in range(optim.epochs):
        method = build_method(config, weighting.at(epoch, optim.epochs))
        records = []
        for step, batch in enumerate(train.epoch(epoch)):
            optimizer.param_groups[0]["lr"] = SCHEDULES[optim.schedule](
                optim.lr, epoch, optim.epochs, step / len(train)
            )
            if meta and isinstance(method.scheme, MetaScheme):
                record = bilaw_step(net, optimizer, batch, meta.cycle(t), method, config.seed, t)
            else:
                record = weighted_step(net, optimizer, batch, method, config.seed, t)
            records.append(_brief(record))
            t += 1
            if watch:
                watch.step(t, total)
        loss, ess = torch.stack(records).mean(dim=0).tolist()
        clean = correct(model, select, None).float().mean().item()
        robust = correct(model, select, judge, seed=config.seed).float().mean().item()
        history.append(Epoch(epoch, loss, clean, robust, ess))
        if best is None or robust > best[0].robust:
            best = history[-1], copy.deepcopy(model.state_dict())
        if watch:
            watch.epoch(history[-1])
    assert best is not None  # there is at least one epoch
    model.load_state_dict(best[1])
    return Result(model, best[0], history, getattr(weighting.scheme, "omega", None))


def _brief(record: Record) -> Tensor:
    """Return (loss, effective sample size) of a step, without waiting for the device."""
    ess = record.w.sum().square() / (len(record.w) * record.w.square().sum())
    return torch.stack([record.loss, ess])
