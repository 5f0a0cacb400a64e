"""What a weight may depend on: the four inputs the paper compares.

Each maps three sets of logits (B, k) and labels (B,) to features (B, n): `at`, where the margin is taken, `clean`
and `adversarial`. Nothing is detached here; schemes do that (weights are constants for theta's gradient), while
the weight-aware adversary wants the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from bilaw.errors import look_up
from bilaw.margins import margin, multiclass_margin
from bilaw.types import Terms

POINTS = {"clean": "clean", "adversarial": "adversarial"}


class Logits(NamedTuple):
    """The logits features are made of; None where they are not needed."""

    at: Tensor | None
    clean: Tensor | None
    adversarial: Tensor | None


def _ce(logits: Tensor | None, y: Tensor) -> Tensor:
    return F.cross_entropy(_present(logits), y, reduction="none")


def _present(logits: Tensor | None) -> Tensor:
    if logits is None:
        raise ValueError("these weights need logits that this loss does not compute: plain training has no weights")
    return logits


FEATURES: dict[str, Callable[[Logits, Tensor], Tensor]] = {
    "multiclass-margin": lambda logits, y: multiclass_margin(_present(logits.at), y),
    "margin": lambda logits, y: margin(_present(logits.at), y)[:, None],
    "adversarial-loss": lambda logits, y: _ce(logits.adversarial, y)[:, None],
    "loss-difference": lambda logits, y: (_ce(logits.adversarial, y) - _ce(logits.clean, y))[:, None],
}


def logits_from(point: str, terms: Terms) -> Tensor:
    """Return the loss's own logits at the clean or the adversarial x, cut off from theta."""
    return _present(terms.logits if point == "clean" else terms.logits_adv).detach()


def reads(features: str, margin_from: str) -> frozenset[str]:
    """Return which logits `features` depends on."""
    look_up("features", features, FEATURES)
    look_up("margin_from", margin_from, POINTS)
    fixed = {"adversarial-loss": {"adversarial"}, "loss-difference": {"clean", "adversarial"}}
    return frozenset(fixed.get(features, {margin_from}))


def width(features: str, classes: int) -> int:
    """Return how many features there are."""
    look_up("features", features, FEATURES)
    return classes if features == "multiclass-margin" else 1
