"""TRADES (Zhang et al. 2019): clean cross-entropy, and a smooth surrogate of the boundary error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn import functional as F

from bilaw.errors import number_at_least
from bilaw.losses.kl import kl
from bilaw.types import Adversarial, Batch, LogitsOf, Terms


@dataclass(frozen=True)
class Trades:
    """fixed = CE(f(x), y), robust = (1/lambda) KL(p(x) || p(x_adv)); the attack maximises the KL.

    Neither side of the KL is detached. In train mode the clean batch passes BatchNorm first, as in TRADES.
    """

    inv_lambda: float = 6.0

    attacked: ClassVar[bool] = True
    objective: ClassVar[str] = "kl"
    start: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        number_at_least("inv_lambda", self.inv_lambda, 0)

    def __call__(self, logits_of: LogitsOf, batch: Batch, adversarial: Adversarial) -> Terms:
        """Return the terms, from one forward of the clean x and one of the adversarial x."""
        logits, logits_adv = logits_of(batch.x), logits_of(adversarial.x)
        robust = self.inv_lambda * kl(logits, logits_adv)
        if adversarial.attacked is not None:  # a spared sample keeps its clean CE only
            robust = torch.where(adversarial.attacked, robust, torch.zeros_like(robust))
        return Terms(F.cross_entropy(logits, batch.y, reduction="none"), robust, logits, logits_adv)
