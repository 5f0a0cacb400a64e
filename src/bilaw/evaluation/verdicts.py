"""The judge: what an attack found is looked at again, whatever the attack says of it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from bilaw.attacks.norms import NORMS
from bilaw.errors import refuse
from bilaw.margins import misclassified
from bilaw.types import Attack, Batch, LogitsOf

SLACK = 1e-5  # of eps, and a tenth of it in itself: what rounding in float32 may add to a distance


class Verdict(NamedTuple):
    """What became of the samples of one batch under one attack."""

    robust: Tensor  # (B,) bool: classified correctly at the point found
    loss: Tensor  # (B,) float32, the cross-entropy there
    stray: Tensor  # (B,) bool: the attack's own point was outside the ball or the box, or no number
    x: Tensor  # (B, ...) the point judged


def judge(
    logits_of: LogitsOf, batch: Batch, attack: Attack, eps: float, norm: str, generator: Generator | None
) -> Verdict:
    """Attack `batch` and judge what comes back: brought into ball and box, and classified anew."""
    # The attack gets a batch of its own: it may not move what it is judged by.
    given = Batch(batch.x.clone(), batch.y.clone(), batch.index)
    found = attack(logits_of, given, generator).x.detach().to(batch.x.dtype)
    if found.shape != batch.x.shape:
        shapes = f"{tuple(found.shape)} for images {tuple(batch.x.shape)}"
        refuse("attack", f"{type(attack).__name__}: points {shapes}", "one that gives a point for every image")
    ball = NORMS[norm](batch.x, eps)
    flat = found.flatten(1)
    unreal = ~flat.isfinite().all(dim=1)
    outside = ~(ball.size(found - batch.x) <= eps * (1 + SLACK) + SLACK / 10)
    stray = unreal | outside | (flat.amin(dim=1) < 0) | (flat.amax(dim=1) > 1)
    whole = torch.where(unreal.view(-1, *[1] * (found.ndim - 1)), batch.x, found)
    x = ball.project(whole)
    robust, loss = classify(logits_of, x, batch.y)
    return Verdict(robust, loss, stray, x)


@torch.no_grad()
def classify(logits_of: LogitsOf, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether each image is classified correctly, and its cross-entropy; logits that are no numbers: no."""
    logits = logits_of(x).float()
    return ~misclassified(logits, y), F.cross_entropy(logits, y, reduction="none")
