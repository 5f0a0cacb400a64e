"""Margins: how far, in probability, a classifier is from changing its mind."""

from __future__ import annotations

import torch
from torch import Tensor

from bilaw.checks import check_labels
from bilaw.errors import refuse


def multiclass_margin(logits: Tensor, y: Tensor) -> Tensor:
    """Return Delta_j = p_y - p_j (Def. 2): logits (B, k), labels (B,) -> (B, k) in [-1, 1], zero at j = y.

    >>> multiclass_margin(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([[0., 0.]])
    """
    _check(logits, y)
    p = logits.softmax(dim=1)
    return p.gather(1, y[:, None]) - p


def margin(logits: Tensor, y: Tensor) -> Tensor:
    """Return m = p_y - max_{t != y} p_t (Def. 1): (B, k), (B,) -> (B,) in [-1, 1]; negative: misclassified.

    >>> margin(torch.tensor([[2.0, 2.0, 0.0]]), torch.tensor([0]))
    tensor([0.])
    """
    _check(logits, y)
    p = logits.softmax(dim=1)
    return p.gather(1, y[:, None])[:, 0] - largest_other(p, y)


def largest_other(values: Tensor, y: Tensor) -> Tensor:
    """Return max_{t != y} values_t for each row: (B, k), (B,) -> (B,)."""
    own = torch.zeros_like(values, dtype=torch.bool).scatter(1, y[:, None], True)
    return values.masked_fill(own, -torch.inf).amax(dim=1)


def _check(logits: Tensor, y: Tensor) -> None:
    if logits.ndim != 2:
        refuse("logits", f"of shape {tuple(logits.shape)}", "a matrix (batch, classes)")
    if y.shape != logits.shape[:1]:  # a single label would broadcast over the whole batch without a word
        refuse("y", f"labels of shape {tuple(y.shape)}", f"one label for each of the {len(logits)} rows of logits")
    check_labels(y, logits.shape[1])


def misclassified(logits: Tensor, y: Tensor) -> Tensor:
    """Return which rows are not classified as y: (B,) bool; logits that are no numbers classify nothing."""
    return (logits.argmax(dim=1) != y) | ~logits.isfinite().all(dim=1)
