"""The attack that leaves x alone: plain training and clean accuracy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, nn

from bilaw.checks import check_images
from bilaw.errors import number_at_least
from bilaw.types import Adversarial, Batch, LogitsOf


@dataclass(frozen=True)
class NoAttack:
    """x_adv = x, whatever eps."""

    eps: float = 0.0

    def __post_init__(self) -> None:
        number_at_least("eps", self.eps, 0)

    def __call__(
        self,
        logits_of: LogitsOf | nn.Module,
        batch: Batch,
        generator: Generator | None = None,
    ) -> Adversarial:
        """Return the batch as it came."""
        check_images(batch.x, batch.y)
        return Adversarial(batch.x.detach(), torch.zeros_like(batch.y), steps=0)
