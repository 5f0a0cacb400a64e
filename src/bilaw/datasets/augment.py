"""Random crop with padding and random mirror, for a whole batch at once, where the batch lies."""

from __future__ import annotations

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
    batch, channels, height, width = x.shape
    high, wide = height + 2 * padding, width + 2 * padding
    both = x.new_zeros(2, batch, channels, high, wide)  # padded: as they are, and mirrored
    inside = both[..., padding : padding + height, padding : padding + width]
    inside[0] = x
    inside[1] = x.flip(3)
    # Every run of `width` pixels in memory is a window (the view takes none of it); a crop copies the rows it wants.
    windows = both.as_strided((both.numel() - width + 1, width), (1, 1))
    image = torch.arange(batch, device=x.device) + mirror * batch
    corner = (image * (channels * high) + dy) * wide + torch.where(mirror, 2 * padding - dx, dx)
    rows = (torch.arange(channels, device=x.device).view(-1, 1) * high + torch.arange(height, device=x.device)) * wide
    return windows.index_select(0, (corner.view(-1, 1) + rows.view(-1)).view(-1)).view_as(x)
