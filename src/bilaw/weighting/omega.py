"""The weight network omega_mu, and the scheme that applies it with mu as it is ("pretrained")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from bilaw.attacks.objectives import Value
from bilaw.checks import describe
from bilaw.errors import refuse, whole_at_least
from bilaw.types import Adversarial, Batch, LogitsOf, Terms
from bilaw.weighting.features import FEATURES, Logits, reads


class WeightNet(nn.Module):
    """omega_mu: an MLP n -> hidden, ReLU, ... -> 1, sigmoid; features (B, n) to raw weights (B,) in (0, 1)."""

    def __init__(self, inputs: int, hidden: Sequence[int] = (128,)) -> None:
        super().__init__()
        if not isinstance(hidden, Sequence):
            refuse("hidden", hidden, "a sequence of whole numbers >= 1, such as (128,)")
        widths = [whole_at_least("inputs", inputs, 1), *(whole_at_least("hidden", n, 1) for n in hidden)]
        self.inputs = inputs
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(widths):
            layers += [nn.Linear(n_in, n_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(self, features: Tensor) -> Tensor:
        """Return raw weights."""
        if features.ndim != 2 or features.shape[1] != self.inputs:
            refuse("features", describe(features), f"shape (batch, {self.inputs}): this network was built for as many")
        out: Tensor = self.layers(features)
        return out[:, 0].sigmoid()


@dataclass(frozen=True)
class Omega:
    """omega_mu(features): a weight network, and what it looks at.

    As a scheme of its own it is the paper's pretrained, frozen network: any classifier with as many classes can
    be trained with it, without a single meta step.
    """

    network: nn.Module
    features: str = "multiclass-margin"
    margin_from: str = "clean"
    normalised: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.network, nn.Module):
            refuse("network", self.network, "a torch.nn.Module: features (B, n) to weights (B,)")
        self.reads  # noqa: B018 - refuses unknown names

    @property
    def reads(self) -> frozenset[str]:
        """Return which logits the weights depend on."""
        return reads(self.features, self.margin_from)

    def __call__(self, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
        """Return raw weights; a gradient flows to mu, none to theta."""
        return self.raw(terms, y)

    def raw(self, terms: Terms, y: Tensor) -> Tensor:
        """Return them: they need the logits alone."""
        clean, adv = (None if z is None else z.detach() for z in (terms.logits, terms.logits_adv))
        return self._raw(Logits(clean if self.margin_from == "clean" else adv, clean, adv), y)

    def when_attacked(self, terms: Terms, y: Tensor) -> Tensor:
        """Return the raw weights at the adversarial x, wherever the scheme takes its margins."""
        clean, adv = (None if z is None else z.detach() for z in (terms.logits, terms.logits_adv))
        return self._raw(Logits(adv, clean, adv), y)

    def at(self, logits_of: LogitsOf, batch: Batch) -> Value:
        """Return the raw weight as a function of the logits at x + d, for `weight_aware_pgd`."""
        with torch.no_grad():
            clean = logits_of(batch.x) if self.features == "loss-difference" else None
        return lambda logits: self._raw(Logits(logits, clean, logits), batch.y)

    def _raw(self, logits: Logits, y: Tensor) -> Tensor:
        features = FEATURES[self.features](logits, y)
        mu = next(self.network.parameters(), features)  # the classifier may compute in another precision
        raw: Tensor = self.network(features.to(mu.dtype))
        return raw
