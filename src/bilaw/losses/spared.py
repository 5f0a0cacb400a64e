"""Samples that no attack touched are trained plainly (METHOD section 7, the 80 % variant)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from bilaw.types import Adversarial


def split_spared(robust: Tensor, logits_adv: Tensor, y: Tensor, adversarial: Adversarial) -> tuple[Tensor, Tensor]:
    """Return (fixed, robust) of a loss without a clean part: a spared sample's plain CE is its fixed part.

    Its logits_adv are those of the clean x, because the attack returned x itself.
    """
    if adversarial.attacked is None:
        return torch.zeros_like(robust), robust
    plain = F.cross_entropy(logits_adv, y, reduction="none")
    zero = torch.zeros_like(robust)
    return torch.where(adversarial.attacked, zero, plain), torch.where(adversarial.attacked, robust, zero)
