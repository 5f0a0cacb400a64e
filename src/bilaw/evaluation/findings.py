"""What a check of the audit says, and what a check is given to look at."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from bilaw.evaluation.verdicts import classify, judge
from bilaw.rng import generator
from bilaw.types import Attack, Batch, LogitsOf

PASS, WARN, FAIL = "pass", "warn", "fail"


class Finding(NamedTuple):
    """One line of the audit."""

    check: str
    verdict: str  # pass, warn or fail
    figure: float  # what was measured
    meaning: str  # in a sentence
    concerns: tuple[str, ...] = ()  # the suites whose numbers a failure spoils; none: all of them


class Trial(NamedTuple):
    """A classifier as it is judged, and the samples that the audit looks at."""

    logits_of: LogitsOf
    module: nn.Module | None  # None: a function was handed over
    trained: bool  # was the module in train mode when it came?
    x: Tensor
    y: Tensor
    eps: float
    norm: str
    seed: int
    batch: int


class Outcome(NamedTuple):
    """What an evaluation found out already: for every suite (N,) tensors."""

    robust: dict[str, Tensor]  # bool
    by: dict[str, Tensor]  # int8: the place in `attacks` of what broke it, SURVIVED, or ALREADY wrong as it is
    attacks: dict[str, tuple[str, ...]]
    strays: dict[str, int]


def logits(trial: Trial, x: Tensor) -> Tensor:
    """Return the logits at x, batch by batch."""
    with torch.no_grad():
        return torch.cat([trial.logits_of(part).float() for part in torch.split(x, trial.batch)])


def accuracy(trial: Trial, x: Tensor) -> float:
    """Return the accuracy at x, an image for each of the trial's."""
    parts = zip(torch.split(x, trial.batch), torch.split(trial.y, trial.batch), strict=True)
    right = [classify(trial.logits_of, part, y)[0] for part, y in parts]
    return share(torch.cat(right))


def survivors(trial: Trial, attack: Attack, eps: float, purpose: str) -> Tensor:
    """Return which samples are classified correctly as they are and after `attack`: (N,) bool."""
    right = logits(trial, trial.x).argmax(dim=1) == trial.y
    places = right.nonzero()[:, 0]
    for start in range(0, len(places), trial.batch):
        part = places[start : start + trial.batch]
        batch = Batch(trial.x[part], trial.y[part], part)
        drawn = generator(trial.seed, "audit", purpose, start, device=trial.x.device)
        right[part] = judge(trial.logits_of, batch, attack, eps, trial.norm, drawn).robust
    return right


def share(which: Tensor) -> float:
    """Return the share of True."""
    return which.double().mean().item() if len(which) else 0.0


def graded(figure: float, warn: float, fail: float) -> str:
    """Return the verdict on a figure that should be small.

    >>> graded(0.0, 0.01, 0.1), graded(0.05, 0.01, 0.1), graded(0.2, 0.01, 0.1)
    ('pass', 'warn', 'fail')
    """
    return FAIL if figure > fail else WARN if figure > warn else PASS
