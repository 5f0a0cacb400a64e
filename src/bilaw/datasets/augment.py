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
    height, width = x.shape[2:]
    padded = F.pad(x, (padding,) * 4)
    # One strided gather of B windows; a view of every window costs nothing.
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    cropped = windows[torch.arange(len(x), device=x.device), :, dy, dx]
    return torch.where(mirror.view(-1, 1, 1, 1), cropped.flip(3), cropped)
