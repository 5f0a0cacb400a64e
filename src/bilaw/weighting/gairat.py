"""GAIRAT (Zhang et al. 2021): samples that fall after few attack iterations weigh more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from bilaw.errors import number, refuse
from bilaw.types import Adversarial, Terms


@dataclass(frozen=True)
class Gairat:
    """omega = (1 + tanh(lam + 5 (1 - 2 kappa / K))) / 2, kappa of K iterates still correct."""

    lam: float = -1.0
    normalised: bool = True

    reads: ClassVar[frozenset[str]] = frozenset({"path"})

    def __post_init__(self) -> None:
        number("lam", self.lam)

    def __call__(self, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
        """Return raw weights from the attack's path."""
        if adversarial.steps < 1:
            refuse("attack", "none", "an attack with iterations to count, for GAIRAT weighs by them")
        kappa = adversarial.survived.to(terms.robust.dtype)
        return (2 * (self.lam + 5 * (1 - 2 * kappa / adversarial.steps))).sigmoid()
