"""Adversarial training (Madry et al. 2018): cross-entropy of the adversarial x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch.nn import functional as F

from bilaw.losses.spared import split_spared
from bilaw.types import Adversarial, Batch, LogitsOf, Terms


@dataclass(frozen=True)
class AdversarialCE:
    """fixed = 0, robust = CE(f(x_adv), y); the attack maximises CE."""

    attacked: ClassVar[bool] = True
    objective: ClassVar[str] = "ce"
    start: ClassVar[str] = "uniform"

    def __call__(self, logits_of: LogitsOf, batch: Batch, adversarial: Adversarial) -> Terms:
        """Return the terms; the clean x is not looked at."""
        logits_adv = logits_of(adversarial.x)
        ce = F.cross_entropy(logits_adv, batch.y, reduction="none")
        fixed, robust = split_spared(ce, logits_adv, batch.y, adversarial)
        return Terms(fixed, robust, logits=None, logits_adv=logits_adv)
