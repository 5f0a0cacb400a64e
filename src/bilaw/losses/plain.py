"""Plain training: cross-entropy of the clean x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn import functional as F

from bilaw.types import Adversarial, Batch, LogitsOf, Terms


@dataclass(frozen=True)
class Plain:
    """fixed = CE(f(x), y), robust = 0: there is nothing for a weight to act on."""

    attacked: ClassVar[bool] = False
    objective: ClassVar[str] = "ce"
    start: ClassVar[str] = "uniform"

    def __call__(self, logits_of: LogitsOf, batch: Batch, adversarial: Adversarial) -> Terms:
        """Return the terms; whatever the attack found is not looked at."""
        logits = logits_of(batch.x)
        ce = F.cross_entropy(logits, batch.y, reduction="none")
        return Terms(fixed=ce, robust=torch.zeros_like(ce), logits=logits, logits_adv=None)
