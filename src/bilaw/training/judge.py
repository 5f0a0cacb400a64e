"""What a classifier is worth on the *select* split, which alone chooses the epoch."""

from __future__ import annotations

import torch

from bilaw.attacks import PGD, fast_fgsm
from bilaw.config import Config
from bilaw.datasets.data import Images
from bilaw.evaluation.accuracy import look
from bilaw.training.guards import Look
from bilaw.types import Attack, LogitsOf


def judge(classifier: LogitsOf, select: Images, config: Config, epoch: int, one_step: bool) -> Look:
    """Return clean and PGD accuracy and, where `one_step`, F-FGSM's; and how many logits are no numbers.

    Every epoch is attacked from the same starts, so that two epochs differ by their parameters alone, and in batches
    of the training's size, so that judging needs no more memory than training.
    """
    ball, lost = (config.attack.eps, config.attack.norm), [0.0]

    def accuracy(attack: Attack | None) -> float:
        hits, real = look(classifier, select, attack, seed=config.seed, batch=config.optim.batch)
        lost.append(1 - real.double().mean().item())
        return hits.sum().item() / len(hits)

    return Look(
        epoch,
        clean=accuracy(None),
        robust=accuracy(PGD(*ball, steps=config.select.steps)),
        one_step=accuracy(fast_fgsm(*ball)) if one_step else torch.nan,
        lost=max(lost),  # the last to be evaluated
    )
