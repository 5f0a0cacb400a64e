"""Random crop with padding and random mirror, for a whole batch at once, where the batch lies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

PADDING = 4  # METHOD section 6: the CIFAR recipe


def to_unit(x: Tensor) -> Tensor:
    """Return images as float32 in [0, 1]: bytes are divided by 255, floats are taken as they are."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x.float()


def crop_and_mirror(x: Tensor, dy: Tensor, dx: Tensor, mirror: Tensor, padding: int = PADDING) -> Tensor:
    """Return `x` (B, C, H, W) padded with zeros, cropped at (dy, dx) in 0..2*padding, mirrored where told.

    >>> x = torch.arange(4.0).view(1, 1, 2, 2)
    >>> stay = torch.tensor([1])
    >>> crop_and_mirror(x, stay, stay, torch.tensor([True]), padding=1).flatten().tolist()
    [1.0, 0.0, 3.0, 2.0]
    """
    return cut(x, corners(x.shape[1:], len(x), dy, dx, mirror, padding), padding)


def corners(shape: Sequence[int], size: int, dy: Tensor, dx: Tensor, mirror: Tensor, padding: int = PADDING) -> Tensor:
    """Return, for samples that come in batches of `size`, where in the memory of `cut` each one's crop begins: (n,).

    A whole epoch's corners are computed at once, so that an accelerator is given few small things to do a batch.
    """
    channels, height, width = shape
    high, wide = height + 2 * padding, width + 2 * padding
    image = 2 * (torch.arange(len(dy), device=dy.device) % size) + mirror
    return (image * (channels * high) + dy) * wide + torch.where(mirror, 2 * padding - dx, dx)


def cut(x: Tensor, corner: Tensor, padding: int = PADDING) -> Tensor:
    """Return the crop of each image in `x` (B, C, H, W) that begins at its `corner`."""
    batch, channels, height, width = x.shape
    high, wide = height + 2 * padding, width + 2 * padding
    both = x.new_zeros(batch, 2, channels, high, wide)  # padded: as they are, and mirrored
    inside = both[..., padding : padding + height, padding : padding + width]
    inside[:, 0] = x
    inside[:, 1] = x.flip(3)
    # Every run of `width` pixels in memory is a window (the view takes none of it); a crop copies the rows it wants.
    windows = both.as_strided((both.numel() - width + 1, width), (1, 1))
    rows = _rows(channels, height, high, wide, x.device)
    return windows.index_select(0, (corner.view(-1, 1) + rows).view(-1)).view_as(x)


@cache
def _rows(channels: int, height: int, high: int, wide: int, device: torch.device) -> Tensor:
    """Return where the rows of a crop begin, from its corner: (C H,)."""
    row = torch.arange(height, device=device)
    return ((torch.arange(channels, device=device).view(-1, 1) * high + row) * wide).view(-1)
