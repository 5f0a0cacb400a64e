"""AT and TRADES: every sample weighs the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bilaw.types import Adversarial, Terms


@dataclass(frozen=True)
class Uniform:
    """omega = 1."""

    normalised: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
        """Return ones."""
        return torch.ones_like(terms.robust, requires_grad=False)
