"""What an attack climbs: per-sample functions of the logits at the adversarial x.

An objective is prepared once per batch and then called on the logits of every iterate.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from bilaw.losses.kl import kl
from bilaw.margins import largest_other
from bilaw.types import Batch, LogitsOf

Value = Callable[[Tensor], Tensor]
Objective = Callable[[LogitsOf, Batch], Value]


def cross_entropy(logits_of: LogitsOf, batch: Batch) -> Value:
    """CE(f(x_adv), y)."""
    return lambda logits: F.cross_entropy(logits, batch.y, reduction="none")


def divergence(logits_of: LogitsOf, batch: Batch) -> Value:
    """KL(p(x) || p(x_adv)), as TRADES attacks; the clean side is computed once."""
    with torch.no_grad():
        clean = logits_of(batch.x)
    return lambda logits: kl(clean, logits)


def logit_margin(logits_of: LogitsOf, batch: Batch) -> Value:
    """max_{t != y} z_t - z_y (Carlini & Wagner 2017, untargeted): positive means misclassified."""
    return lambda logits: largest_other(logits, batch.y) - logits.gather(1, batch.y[:, None])[:, 0]


OBJECTIVES: dict[str, Objective] = {"ce": cross_entropy, "kl": divergence, "cw": logit_margin}
