"""What a run tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Epoch(NamedTuple):
    """What one epoch came to; accuracies are fractions of the *select* split, NaN where it was not looked at."""

    epoch: int
    lr: float  # of its last step
    loss: float  # the step objective, averaged over its steps
    ess: float  # effective sample size of the weights, (sum w)^2 / (B sum w^2), likewise
    clean: float
    robust: float  # under PGD
    one_step: float  # under F-FGSM; NaN where no role attacks with one step


class Watch(NamedTuple):
    """Who is told what happens, as it happens, and who may ask for an end."""

    step: Callable[[int, int], None] = lambda done, total: None  # (steps done, steps in all)
    epoch: Callable[[Epoch], None] = lambda epoch: None
    note: Callable[[str], None] = lambda text: None
    stop: Callable[[], bool] = lambda: False  # asked after every step: save, and end with `Interrupted`?
