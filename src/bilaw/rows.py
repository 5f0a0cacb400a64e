"""Tensors with a row for each sample: broadcasting to their images, and writing some rows alone."""

from __future__ import annotations

import torch
from torch import Tensor


def columns(per_sample: Tensor, like: Tensor) -> Tensor:
    """Return (B,) as (B, 1, ...), to broadcast against images."""
    return per_sample.view(-1, *[1] * (like.ndim - 1))


def put(rows: Tensor, value: Tensor, into: Tensor) -> None:
    """Write those rows of `value` into `into` whose place in `rows` (B,) bool is true.

    On a CPU they alone are copied, most often few; an accelerator would have to wait to know which.

    >>> held = torch.zeros(2, 1)
    >>> put(torch.tensor([False, True]), torch.ones(2, 1), held)
    >>> held[:, 0]
    tensor([0., 1.])
    """
    if rows.device.type == "cpu":
        places = rows.nonzero()[:, 0]
        into.index_copy_(0, places, value.index_select(0, places))
    else:
        torch.where(columns(rows, into), value, into, out=into)
