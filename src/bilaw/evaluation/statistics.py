"""How sure one can be of an accuracy, and of a difference between two."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from bilaw.errors import refuse

Z95 = 1.959963984540054  # the standard normal's 97.5 % point
RESAMPLES = 10_000


def wilson(hits: int, n: int, z: float = Z95) -> tuple[float, float]:
    """Return Wilson's score interval (1927) of a proportion: it stays inside [0, 1] and is honest near its ends.

    >>> [round(end, 4) for end in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    if not 0 <= hits <= n or n < 1:
        refuse("hits of n", f"{hits} of {n}", "0 <= hits <= n and n >= 1")
    p, z2 = hits / n, z * z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return 0.0 if hits == 0 else max(0.0, middle - half), 1.0 if hits == n else min(1.0, middle + half)


class Pair(NamedTuple):
    """Two classifiers on the same samples: how many only one of them gets right, and what follows."""

    only_a: int
    only_b: int
    n: int

    @property
    def difference(self) -> float:
        """Return the accuracy of a less that of b."""
        return (self.only_a - self.only_b) / self.n


def pair(a: Tensor, b: Tensor) -> Pair:
    """Return the counts of two verdicts (N,) bool on the same samples."""
    if a.shape != b.shape or not len(a):
        refuse("verdicts", f"{len(a)} and {len(b)}", "two verdicts on the same samples, at least one")
    return Pair(int((a & ~b).sum()), int((~a & b).sum()), len(a))


def mcnemar(counts: Pair) -> float:
    """Return McNemar's exact two-sided p: are samples that only one gets right as often a's as b's?

    >>> mcnemar(Pair(only_a=5, only_b=0, n=100))
    0.0625
    """
    few, both = min(counts.only_a, counts.only_b), counts.only_a + counts.only_b
    tail = sum(math.comb(both, i) for i in range(few + 1))
    return float(min(1.0, 2 * tail / 2**both))


def bootstrap(counts: Pair, seed: int = 0, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Return the paired bootstrap's 95 % interval of the difference of two accuracies (percentile method).

    A resample of samples with replacement is a draw of three counts: only a right, only b right, no difference.
    """
    n = counts.n
    shares = np.array([counts.only_a, counts.only_b, n - counts.only_a - counts.only_b]) / n
    drawn = np.random.default_rng(seed).multinomial(n, shares, size=resamples)
    low, high = np.percentile((drawn[:, 0] - drawn[:, 1]) / n, [2.5, 97.5])
    return float(low), float(high)


class Spread(NamedTuple):
    """Several seeds: mean, standard deviation, and the mean's 95 % interval by Student's t."""

    mean: float
    deviation: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return what several seeds say of a mean.

    >>> [round(x, 3) for x in spread([0.5, 0.6, 0.7])]
    [0.6, 0.1, 0.352, 0.848]
    """
    if len(values) < 2:
        refuse("seeds", len(values), "at least 2 for a spread")
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    half = t_quantile(0.975, len(values) - 1) * deviation / math.sqrt(len(values))
    return Spread(mean, deviation, mean - half, mean + half)


def welch(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p of Welch's t-test: do two groups of seeds have the same mean?

    >>> round(welch([0.50, 0.51, 0.52], [0.60, 0.61, 0.63]), 4)
    0.0012
    """
    va, vb = (statistics.variance(values) / len(values) for values in (a, b))
    apart = statistics.fmean(a) - statistics.fmean(b)
    if va + vb == 0:
        refuse("seeds", "two groups that agree throughout", "seeds that differ: else nothing says by how much they do")
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return min(max(2 * (1 - t_probability(abs(apart) / math.sqrt(va + vb), df)), 0.0), 1.0)


def t_probability(t: float, df: float) -> float:
    """Return P(T <= t) of Student's t, by Simpson's rule on its density after t = sqrt(df) tan(u)."""
    steps = 2000
    top = math.atan(abs(t) / math.sqrt(df))
    h = top / steps
    heights = [math.cos(i * h) ** (df - 1) for i in range(steps + 1)]
    area = h / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]))
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)
    return 0.5 + math.copysign(scale * area, t)


def t_quantile(p: float, df: float) -> float:
    """Return the t that Student's t stays below with probability p >= 1/2, by bisection.

    >>> round(t_quantile(0.975, 4), 4)
    2.7764
    """
    low, high = 0.0, 1.0
    while t_probability(high, df) < p:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, df) < p else (low, middle)
    return (low + high) / 2


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for being several (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted, most = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        most = max(most, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = most
    return adjusted
