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
    batch, channels, height, width = x.shape
    rows, columns = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
    columns = torch.where(mirror.view(-1, 1), width - 1 - columns, columns) + dx.view(-1, 1)
    rows = (rows + dy.view(-1, 1)) * (width + 2 * padding)
    # Crop and mirror are one gather of pixels, the same for each channel (expand takes no memory).
    pixels = (rows.unsqueeze(2) + columns.unsqueeze(1)).view(batch, 1, -1).expand(-1, channels, -1)
    return F.pad(x, (padding,) * 4).flatten(2).gather(2, pixels).view_as(x)
