"""The difference of logits ratio: a loss that no rescaling or shift of the logits changes (Croce & Hein 2020)."""

from __future__ import annotations

from torch import Tensor

from bilaw.margins import largest_other

SMALL = 1e-12


def dlr(logits: Tensor, y: Tensor) -> Tensor:
    """Return (max_{t != y} z_t - z_y) / (z_1 - z_3), z_1 >= z_2 >= ... sorted: (B,).

    Of two classes there is no third; the difference then stands alone.
    """
    return (largest_other(logits, y) - _of(logits, y)) / _scale(logits, targeted=False)


def targeted_dlr(logits: Tensor, y: Tensor, target: Tensor) -> Tensor:
    """Return (z_target - z_y) / (z_1 - (z_3 + z_4) / 2): (B,).

    With three classes the scale is that of `dlr`, with two there is none.

    >>> import torch
    >>> targeted_dlr(torch.tensor([[4.0, 3.0, 2.0, 0.0]]), torch.tensor([0]), torch.tensor([1]))
    tensor([-0.3333])
    """
    return (_of(logits, target) - _of(logits, y)) / _scale(logits, targeted=True)


def _of(logits: Tensor, classes: Tensor) -> Tensor:
    return logits.gather(1, classes[:, None])[:, 0]


def _scale(logits: Tensor, targeted: bool) -> Tensor | float:
    k = logits.shape[1]
    if k < 3:
        return 1.0
    top = logits.topk(min(k, 4), dim=1).values
    low = (top[:, 2] + top[:, 3]) / 2 if targeted and k > 3 else top[:, 2]
    return top[:, 0] - low + SMALL
