"""Non-parametric reweighting (Ren et al. 2018, made robust): no network, alignment itself is the weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bilaw.types import Adversarial, Terms


@dataclass(frozen=True)
class NonParametric:
    """omega_j = max(0, s_j), s taken at equal weights; a batch without a positive s counts uniformly."""

    normalised: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
        """Return the equal weights of the look-ahead."""
        return torch.ones_like(terms.robust, requires_grad=False)

    def learn(self, w: Tensor, s: Tensor, beta: float) -> Given:
        """Return the weights of the real step."""
        return Given(s.clamp_min(0))


@dataclass(frozen=True)
class Given:
    """Raw weights that are already known."""

    raw: Tensor

    normalised: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
        """Return them."""
        return self.raw
