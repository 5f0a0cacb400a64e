"""Clean and robust verdicts, sample by sample."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bilaw.datasets.augment import to_unit
from bilaw.datasets.data import Samples, take
from bilaw.margins import misclassified
from bilaw.net import frozen
from bilaw.rng import generator
from bilaw.types import Attack, Batch, LogitsOf


def correct(
    model: nn.Module | LogitsOf, images: Samples, attack: Attack | None, *, seed: int = 0, batch: int = 500
) -> Tensor:
    """Return for every image whether the eval-mode classifier is right after `attack` (None: as it is): (N,) bool."""
    return look(model, images, attack, seed=seed, batch=batch)[0]


def look(
    model: nn.Module | LogitsOf, images: Samples, attack: Attack | None, *, seed: int = 0, batch: int = 500
) -> tuple[Tensor, Tensor]:
    """Return the same, and whether the logits there are numbers: (N,) bool each.

    Logits that are no numbers are no verdict, and wrong.
    """
    classifier, right, real = frozen(model), [], []
    for start in range(0, len(images.y), batch):
        index = torch.arange(start, min(start + batch, len(images.y)), device=images.y.device)
        raw, y = take(images, index)
        found = Batch(to_unit(raw), y, index)
        x = found.x
        if attack is not None:
            x = attack(classifier, found, generator(seed, "evaluate", start, device=x.device)).x
        with torch.no_grad():
            logits = classifier(x)
        right.append(~misclassified(logits, y))
        real.append(logits.isfinite().all(dim=1))
    return torch.cat(right), torch.cat(real)
