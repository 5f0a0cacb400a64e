"""The adversary that knows the weights (the paper's section on weight-aware adversaries)."""

from __future__ import annotations

from typing import Any

from bilaw.attacks.objectives import OBJECTIVES, Objective, Value
from bilaw.attacks.pgd import PGD
from bilaw.errors import look_up, refuse
from bilaw.types import Batch, LogitsOf


def weight_aware_pgd(eps: float, *, weight: Objective, objective: str = "ce", **settings: Any) -> PGD:
    """Return PGD on omega(Delta(f(x + d), y)) * loss: the raw weight of each sample, gradient through omega too.

    `weight` is `Omega.at` of the run's own weight network ("full knowledge") or of another's ("partial").
    """
    loss = look_up("objective", objective, OBJECTIVES)
    if not callable(weight):
        refuse("weight", weight, "a function such as Omega.at: (logits_of, batch) -> (logits -> weights)")

    def weighted(logits_of: LogitsOf, batch: Batch) -> Value:
        weight_of, loss_of = weight(logits_of, batch), loss(logits_of, batch)
        return lambda logits: weight_of(logits) * loss_of(logits)

    return PGD(eps, objective=weighted, **settings)
