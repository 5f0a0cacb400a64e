"""Do hard samples weigh more? Rank correlation of weight and margin, from a run's weight history."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bilaw.evaluation.statistics import Z95
from bilaw.reproduction.inference import Mean
from bilaw.runs import Run

Array = np.ndarray[Any, np.dtype[np.float64]]


def hardness(folder: Path) -> Mean | None:
    """Return Spearman's rho of weight and adversarial margin in the run's best epoch, with its 95 % interval.

    Below zero means: the smaller the margin, the harder the sample, the more it weighs. None where there is no history,
    or where all samples weigh the same.
    """
    run = Run(folder)
    values, epochs, history = run.weights()
    best = run.status().best
    if not epochs or best is None or best["epoch"] not in epochs:
        return None
    rows = history[epochs.index(best["epoch"])].astype(np.float64)
    weight, margin = rows[values.index("weight")], rows[values.index("adversarial margin")]
    known = np.isfinite(weight) & np.isfinite(margin)
    rho = spearman(weight[known], margin[known])
    return None if rho is None else _interval(rho, int(known.sum()))


def spearman(a: Array, b: Array) -> float | None:
    """Return the correlation of ranks, ties sharing theirs; None where one of the two does not vary.

    >>> round(spearman(np.array([1.0, 2.0, 2.0, 4.0]), np.array([4.0, 3.0, 3.0, 1.0])), 6)
    -1.0
    """
    if len(a) < 4:
        return None
    first, second = _ranks(a), _ranks(b)
    spread = float(first.std() * second.std())
    if spread == 0:
        return None
    return float(((first - first.mean()) * (second - second.mean())).mean()) / spread


def _ranks(values: Array) -> Array:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Array = (last - (counts - 1) / 2)[inverse]
    return ranks


def _interval(rho: float, n: int) -> Mean:
    """Return Fisher's interval, with the variance that Bonett and Wright (2000) give for ranks."""
    z, half = math.atanh(min(max(rho, -0.999999), 0.999999)), Z95 * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return Mean(rho, math.tanh(z - half), math.tanh(z + half))
