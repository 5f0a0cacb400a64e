"""What a check of the audit says, and what a check is given to look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bilaw.evaluation.statistics import mcnemar, pair
from bilaw.evaluation.store import Store
from bilaw.evaluation.suites import passes
from bilaw.evaluation.verdicts import classify, judge
from bilaw.rng import generator
from bilaw.types import Attack, Batch, LogitsOf

PASS, WARN, FAIL = "pass", "warn", "fail"
DOUBT, SURE = 0.05, 0.01  # McNemar's p below which a difference on the same samples is worth a warning, and a failure
FEW = 3  # fewer samples than these fail nothing


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
    store: Store
    tick: Callable[[int], None]  # told of the passes that were done
    seen: dict[str, Tensor]  # what was found out so far, for each purpose

    def only(self, which: Tensor) -> Trial:
        """Return the trial of some of its samples."""
        return self._replace(x=self.x[which], y=self.y[which])


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
    """Return which samples are classified correctly as they are and after `attack`: (N,) bool, on the host.

    What was found out once, for one purpose, is not looked at again.
    """
    key = f"audit-{purpose}"
    known = trial.seen.get(key)
    if known is None:
        held = trial.store.part(key)
        known = held["robust"] if held else None
    if known is not None and len(known) == len(trial.y):
        return known
    right = logits(trial, trial.x).argmax(dim=1) == trial.y
    places = right.nonzero()[:, 0]
    for start in range(0, len(places), trial.batch):
        part = places[start : start + trial.batch]
        batch = Batch(trial.x[part], trial.y[part], part)
        drawn = generator(trial.seed, "audit", purpose, start, device=trial.x.device)
        right[part] = judge(trial.logits_of, batch, attack, eps, trial.norm, drawn).robust
        trial.tick(len(part) * passes(attack))
    robust = trial.seen[key] = right.cpu()
    trial.store.keep(key, {"robust": robust})
    return robust


def share(which: Tensor) -> float:
    """Return the share of True."""
    return which.double().mean().item() if len(which) else 0.0


def excess(a: Tensor, b: Tensor, warn: float, fail: float) -> tuple[float, str]:
    """Return by how much more of the same samples a holds than b, and the verdict where it should not.

    What chance alone may do is no finding.
    """
    figure, p = share(a) - share(b), mcnemar(pair(a, b))
    if figure > fail and p < SURE:
        return figure, FAIL
    return figure, WARN if figure > warn and p < DOUBT else PASS


def counted(count: int, n: int, warn: float, fail: float) -> tuple[float, str]:
    """Return a share that should be small, and the verdict on it.

    >>> counted(0, 50, 0.0, 0.05), counted(2, 20, 0.0, 0.05), counted(4, 20, 0.0, 0.05)
    ((0.0, 'pass'), (0.1, 'warn'), (0.2, 'fail'))
    """
    figure = count / n if n else 0.0
    if figure > fail and count >= FEW:
        return figure, FAIL
    return figure, WARN if figure > warn else PASS
