"""MAIL (Wang et al. 2021): weights sigmoidal in the margin."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bilaw.errors import number, number_at_least
from bilaw.margins import margin
from bilaw.types import Adversarial, Terms
from bilaw.weighting.features import logits_from, reads


@dataclass(frozen=True)
class Mail:
    """omega = scale * sigmoid(-g (m - b))."""

    g: float = 5.0
    b: float = 0.05
    scale: float = 1.0
    normalised: bool = True
    margin_from: str = "adversarial"

    def __post_init__(self) -> None:
        number_at_least("g", self.g, 0)
        number("b", self.b)
        number_at_least("scale", self.scale, 0, above=True)
        self.reads  # noqa: B018 - refuses an unknown margin_from

    @property
    def reads(self) -> frozenset[str]:
        """Return where the margin is taken."""
        return reads("margin", self.margin_from)

    def __call__(self, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
        """Return raw weights from the margin."""
        m = margin(logits_from(self.margin_from, terms), y)
        return self.scale * torch.sigmoid(-self.g * (m - self.b))
