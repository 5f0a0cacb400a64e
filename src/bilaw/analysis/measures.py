"""The numbers behind the figures: pure functions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bilaw.evaluation.statistics import wilson

Array = npt.NDArray[Any]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def confusion(y: Array, predicted: Array, classes: int) -> Array:
    """Return how often each class (row) is taken for each (column): (k, k).

    >>> confusion(np.array([0, 1, 1]), np.array([0, 1, 0]), 2).tolist()
    [[1, 0], [1, 1]]
    """
    counts: Array = np.bincount(y * classes + predicted, minlength=classes * classes)
    return counts.reshape(classes, classes)


def adversarial_ranks(logits: Array, predicted: Array) -> Array:
    """Return how often the adversarial class had the i-th largest clean logit, i = 1..k-1; unchanged ones are left out.

    >>> adversarial_ranks(np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), np.array([2, 0])).tolist()
    [0, 1]
    """
    before = logits.argmax(axis=1)
    moved = before != predicted
    own = logits[moved, predicted[moved]]
    rank = (logits[moved] > own[:, None]).sum(axis=1)
    # With ties the first of the equal logits is the prediction: no other has rank 0.
    counts: Array = np.bincount(np.maximum(rank, 1), minlength=logits.shape[1])
    return counts[1:]


def softmax(logits: Array) -> Array:
    """Return likelihoods (n, k)."""
    finite = np.where(np.isfinite(logits).all(axis=1, keepdims=True), logits, 0)  # no numbers: all are as likely
    shifted = np.exp(finite - finite.max(axis=1, keepdims=True))
    likely: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return likely


def margins(logits: Array, y: Array) -> Array:
    """Return m = p_y - max_{t != y} p_t (Def. 1): (n,)."""
    p = softmax(logits.astype(np.float64))
    own = p[np.arange(len(y)), y]
    p[np.arange(len(y)), y] = -np.inf
    m: Array = own - p.max(axis=1)
    return m


def pca(values: Array, dims: int = 3) -> tuple[Array, Array, Array]:
    """Return coordinates (n, dims) on the principal axes, the axes (dims, k), and each one's share of the variance.

    An axis points where its largest entry is positive. What has fewer dimensions has zeros for the rest.
    """
    k = values.shape[1]
    centred = values.astype(np.float64) - values.mean(axis=0)
    if len(centred) < k:  # the same variances, out of the smaller matrix
        variances, points = np.linalg.eigh(centred @ centred.T)
        vectors = centred.T @ points[:, ::-1][:, :dims]
        axes = (vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)).T
    else:
        variances, vectors = np.linalg.eigh(centred.T @ centred)
        axes = vectors[:, ::-1].T[:dims]
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    axes = np.vstack([axes, np.zeros((dims - len(axes), k))])
    held = np.clip(variances[::-1], 0, None)
    total = held.sum()
    share = np.zeros(dims)
    share[: min(dims, len(held))] = held[:dims] / total if total > 0 else 0.0
    return centred @ axes.T, axes, share


def ranked(values: Array) -> Array:
    """Return ranks from 1, ties sharing their mean.

    >>> ranked(np.array([10.0, 30.0, 10.0])).tolist()
    [1.5, 3.0, 1.5]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Array = (last - counts + 1 + last) / 2
    held: Array = means[inverse.reshape(-1)]
    return held


def rank_correlation(a: Array, b: Array) -> float | None:
    """Return Spearman's rank correlation; None where one of the two never varies."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.corrcoef(ranked(a), ranked(b))[0, 1])


def quantiles(values: Array, y: Array, classes: int) -> Array:
    """Return the 5, 25, 50, 75 and 95 % quantiles of each class's values: (k, 5); NaN for a class without any."""
    rows = [values[y == c] for c in range(classes)]
    return np.array([np.quantile(row, QUANTILES) if len(row) else np.full(5, np.nan) for row in rows])


def shares(right: Array, y: Array, classes: int) -> Array:
    """Return each class's accuracy, the ends of Wilson's interval, and how many there are: (k, 4)."""
    rows = []
    for c in range(classes):
        some = right[y == c]
        hits, n = int(some.sum()), len(some)
        rows.append([hits / n, *wilson(hits, n), n] if n else [np.nan, np.nan, np.nan, 0])
    return np.array(rows, dtype=np.float64)
