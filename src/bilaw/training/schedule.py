"""The classifier's learning rate over a run: functions of how far it has come."""

from __future__ import annotations

import math
from collections.abc import Callable


def piecewise(lr: float, epoch: int, epochs: int, part: float) -> float:
    """Return lr, divided by 10 from 30 % and again from 60 % of the epochs: the paper's 30 and 60 of 100.

    >>> [round(piecewise(0.1, epoch, 10, 0.0), 6) for epoch in range(10)]
    [0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, 0.001]
    """
    drops = sum(epoch >= round(share * epochs, 9) for share in (0.3, 0.6))
    return lr * 0.1**drops


def cosine(lr: float, epoch: int, epochs: int, part: float) -> float:
    """Return lr falling along half a cosine to zero."""
    return lr * (1 + math.cos(math.pi * (epoch + part) / epochs)) / 2


def one_cycle(lr: float, epoch: int, epochs: int, part: float) -> float:
    """Return lr rising linearly for 40 % of the run, then falling linearly to zero (Wong et al. 2020)."""
    progress = (epoch + part) / epochs
    return lr * min(progress / 0.4, (1 - progress) / 0.6)


Schedule = Callable[[float, int, int, float], float]
SCHEDULES: dict[str, Schedule] = {"piecewise": piecewise, "cosine": cosine, "one-cycle": one_cycle}


def rate(schedule: str, lr: float, epoch: int, epochs: int, part: float, warmup: float | None = None) -> float:
    """Return the learning rate after `part` of `epoch`; it rises to the schedule's own over the share `warmup`.

    >>> [round(rate("cosine", 0.1, epoch, 10, 0.0, warmup=0.2), 3) for epoch in (0, 1, 2)]
    [0.0, 0.049, 0.09]
    """
    risen = 1.0 if warmup is None else min(1.0, (epoch + part) / (warmup * epochs))
    return SCHEDULES[schedule](lr, epoch, epochs, part) * risen
