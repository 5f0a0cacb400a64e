"""What can be said of a mean over seeds, of its difference from a printed figure, and of a ratio of times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bilaw.evaluation.statistics import spread, t_probability, wilson

PRINTED = 10_000  # test samples behind a figure of the paper's: all that these sets have
RESAMPLES = 2000


class Mean(NamedTuple):
    """A mean, and its 95 % interval: Student's t over seeds, Wilson's of a single one."""

    mean: float
    low: float
    high: float


def mean(accuracies: Sequence[float], n: int) -> Mean:
    """Return what seeds say of an accuracy, each measured on the same `n` samples.

    >>> [round(value, 3) for value in mean([0.5], 100)], [round(value, 3) for value in mean([0.5, 0.6, 0.7], 100)]
    ([0.5, 0.404, 0.596], [0.6, 0.352, 0.848])
    """
    if len(accuracies) == 1:
        return Mean(accuracies[0], *wilson(round(accuracies[0] * n), n))
    held = spread(accuracies)
    return Mean(held.mean, held.low, held.high)


def apart(accuracies: Sequence[float], n: int, printed: float) -> float:
    """Return the two-sided p that ours and a printed accuracy are of the same method.

    The paper prints a single figure, of which neither seeds nor spread are known. It is taken for one more run on
    the whole test set: with several seeds of ours, for one more draw from their spread (t with k - 1 degrees, variance
    s^2 (1 + 1/k)), to which comes what a part of the test set leaves open; with one, for a second sample of images.

    >>> round(apart([0.80], 10_000, 0.82), 5), apart([0.80, 0.81, 0.82], 10_000, 0.81)
    (0.00031, 1.0)
    """
    k, ours = len(accuracies), statistics.fmean(accuracies)
    deviation = statistics.stdev(accuracies) if k > 1 else 0.0
    if deviation == 0:
        variance = ours * (1 - ours) / n + printed * (1 - printed) / PRINTED
        return _normal(ours - printed, variance)
    rest = ours * (1 - ours) / n * max(0.0, 1 - n / PRINTED)
    t = abs(ours - printed) / math.sqrt(deviation**2 * (1 + 1 / k) + rest)
    return min(1.0, 2 * (1 - t_probability(t, k - 1)))


def _normal(difference: float, variance: float) -> float:
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    return math.erfc(abs(difference) / math.sqrt(2 * variance))


def speedup(base: Sequence[float], other: Sequence[float], seed: int = 0) -> Mean:
    """Return how many times as fast `other` is, timed in turns with `base`: ratio of medians, turns drawn anew."""
    held = np.array([base, other])
    picks = np.random.default_rng(seed).integers(held.shape[1], size=(RESAMPLES, held.shape[1]))
    medians = np.median(held[:, picks], axis=2)
    low, high = np.percentile(medians[0] / medians[1], [2.5, 97.5])
    middle = np.median(held, axis=1)
    return Mean(float(middle[0] / middle[1]), float(low), float(high))
