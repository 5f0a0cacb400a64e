"""Images given as arrays or tensors: their layout, their range, and how they are kept.

The layout rule. Three axes are (batch, height, width). Of four, the channels are the second or the last, whichever
has size 1 to 4; where both have, tensors are read as PyTorch's (batch, channels, height, width) and arrays as NumPy's
and Keras' (batch, height, width, channels), and a note says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bilaw.checks import describe
from bilaw.datasets.augment import to_unit
from bilaw.datasets.data import Half, Images
from bilaw.datasets.labels import to_labels
from bilaw.errors import refuse

CHANNELS = range(1, 5)
FIRST, LAST = "(channels, height, width)", "(height, width, channels)"
HINT = "; divide bytes by 255 and make normalisation a layer of the model (bilaw.models.normalized)"
ACCEPTED = "an array or tensor of shape (B, H, W), (B, H, W, C) or (B, C, H, W), uint8 or floats in [0, 1]"
ROWS = 4096  # looked at together, so that looking takes little memory


def from_arrays(x: Any, y: Any, where: str = "train") -> Half:
    """Return images and labels as the training or test half.

    >>> half = from_arrays(np.zeros((2, 28, 28), dtype=np.uint8), [0, 1])
    >>> half.samples.x.shape, half.samples.y.tolist()
    (torch.Size([2, 1, 28, 28]), [0, 1])
    """
    held = to_tensor(x, f"{where} images")
    notes = []
    if held.ndim not in (3, 4) or 0 in held.shape:
        refuse(f"{where} images", f"shape {tuple(held.shape)}", ACCEPTED + ", not empty")
    if held.ndim == 3:
        held = held.unsqueeze(1)
    else:
        order, sure = layout(tuple(held.shape[1:]), isinstance(x, Tensor), f"{where} images")
        if not sure:
            notes.append(f"images of shape {tuple(held.shape)} were read as {order}; both layouts were possible")
        held = (held.permute(0, 3, 1, 2) if order == LAST else held).contiguous()
    check_range(held, f"{where} images")
    held, note = compact(held)
    return Half(Images(held, to_labels(y, len(held), where)), None, (*notes, *note))


def from_images(images: Images, where: str = "train") -> Half:
    """Return `Images` as the training or test half, checked: their layout is known, and kept."""
    if not isinstance(images.x, Tensor) or images.x.ndim != 4 or 0 in images.x.shape:
        refuse(f"{where} images", describe(images.x), "a non-empty tensor (N, channels, height, width)")
    x = to_tensor(images.x, f"{where} images")
    check_range(x, f"{where} images")
    return Half(Images(x, to_labels(images.y, len(x), where)))


def to_tensor(x: Any, where: str) -> Tensor:
    """Return an array or tensor as uint8 or float32 on the host; nothing is copied that need not be."""
    held = x.detach().cpu() if isinstance(x, Tensor) else _from_numpy(x, where)
    if held.dtype != torch.uint8 and not held.is_floating_point():
        hint = "; whole numbers 0..255 become bytes by .astype('uint8') or .to(torch.uint8)"
        refuse(where, str(held.dtype).removeprefix("torch."), ACCEPTED + hint)
    return held if held.dtype == torch.uint8 else held.float()


def _from_numpy(x: Any, where: str) -> Tensor:
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "uif":
        refuse(where, f"array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__, ACCEPTED)
    # PyTorch takes arrays in the machine's own byte order, in C order, and writable; long doubles it does not know.
    kind = np.dtype(np.float64) if x.dtype.kind == "f" and x.dtype.itemsize > 8 else x.dtype.newbyteorder("=")
    held = np.ascontiguousarray(x, dtype=kind)
    return torch.from_numpy(held if held.flags.writeable else held.copy())


def layout(shape: tuple[int, ...], tensor: bool, where: str) -> tuple[str, bool]:
    """Return the layout of one image's three axes by the layout rule, and whether only that one was possible.

    >>> layout((32, 32, 3), tensor=False, where="images")
    ('(height, width, channels)', True)
    """
    first, last = shape[0] in CHANNELS, shape[2] in CHANNELS
    if not first and not last:
        refuse(where, f"shape {shape} of one image", f"1 to 4 channels, {FIRST} or {LAST}")
    return (FIRST if first and (tensor or not last) else LAST), first != last


def check_range(x: Tensor, where: str) -> None:
    """Refuse floats outside [0, 1], and what is no number."""
    if x.dtype == torch.uint8:
        return
    low, high = x.min().item(), x.max().item()  # either is NaN if any pixel is
    if low != low:
        refuse(where, "NaN", "numbers in [0, 1]")
    if low < 0 or high > 1:
        refuse(where, f"values in [{low:g}, {high:g}]", f"values in [0, 1]{HINT}")


def compact(x: Tensor) -> tuple[Tensor, tuple[str, ...]]:
    """Return floats that all are k / 255 as the bytes k they come from, with a note: the same pixels in a quarter.

    >>> compact(torch.tensor([0.2, 1.0]))[0]
    tensor([ 51, 255], dtype=torch.uint8)
    """
    if x.dtype == torch.uint8:
        return x, ()
    packed = torch.empty(x.shape, dtype=torch.uint8)
    for start in range(0, len(x), ROWS):
        part, into = x[start : start + ROWS], packed[start : start + ROWS]
        into.copy_(part.mul(255).round_())
        if not torch.equal(to_unit(into), part):
            return x, ()
    return packed, ("float images that are bytes / 255 were kept as bytes",)
