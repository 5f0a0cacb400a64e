"""Random crop with padding and random mirror, for a whole batch at once, where the batch lies."""

from __future__ import annotations

import torch
import torch.nn.functional as F
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
    own = torch.arange(len(x), device=x.device)
    x = _crop(x, own, dy, dx, padding)
    return torch.cat([x, x.flip(3)]).index_select(0, own + mirror * len(x))


def _crop(x: Tensor, own: Tensor, dy: Tensor, dx: Tensor, padding: int) -> Tensor:
    """Return the windows at (dy, dx) of the padded images."""
    _, channels, height, width = x.shape
    padded = F.pad(x, (padding,) * 4)
    high, wide = padded.shape[2:]
    # Every run of `width` pixels in memory is a window (the view takes none of it); a crop copies the rows it wants.
    windows = padded.as_strided((padded.numel() - width + 1, width), (1, 1))
    first = (own * (channels * high) + dy) * wide + dx
    rows = (torch.arange(channels, device=x.device).view(-1, 1) * high + torch.arange(height, device=x.device)) * wide
    return windows.index_select(0, (first.view(-1, 1) + rows.view(-1)).view(-1)).view_as(x)
