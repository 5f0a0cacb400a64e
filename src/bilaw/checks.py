"""The door: what is asked of images, labels and logits before anything is done with them.

Shapes are checked everywhere, for they cost nothing. Pixels on the CPU are checked by every attack and step: less than
a hundredth of either. On an accelerator, which would have to stop to tell, they are checked where a user's tensors
become a `Batch` (`make_batch`), and the one number a step reads back is whether its weights are weights
(`weighting.normalise`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from bilaw.errors import refuse, whole_at_least
from bilaw.types import Batch


def check_shapes(x: Tensor, y: Tensor) -> None:
    """Refuse images and labels whose shapes or types do not belong together."""
    if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point() or 0 in x.shape:
        refuse("x", describe(x), "a non-empty floating-point tensor of shape (batch, ...)")
    if not isinstance(y, Tensor) or y.shape != x.shape[:1] or y.dtype != torch.int64:
        refuse("y", describe(y), f"an int64 tensor of shape ({len(x)},), one label for each row of x")
    if y.device != x.device:
        refuse("y", f"on {y.device}", f"labels on the device of x, {x.device}")


def check_images(x: Tensor, y: Tensor) -> None:
    """Refuse what `check_shapes` does, and pixels outside [0, 1] where looking is free."""
    check_shapes(x, y)
    if x.device.type == "cpu":
        _check_pixels(x)


def _check_pixels(x: Tensor) -> None:
    low, high = (bound.item() for bound in x.detach().aminmax())
    if not 0 <= low <= high <= 1:  # false for NaN, too
        hint = "; divide bytes by 255 and make normalisation a layer of the model (bilaw.models.normalized)"
        refuse("x", f"values in [{low:g}, {high:g}]", f"values in [0, 1]{hint}")


def check_labels(y: Tensor, classes: int) -> None:
    """Refuse labels outside 0..classes-1, where looking is free; an accelerator's were looked at by `make_batch`."""
    if y.device.type == "cpu" and len(y) and not 0 <= int(y.min()) <= int(y.max()) < classes:
        refuse("y", f"labels in {int(y.min())}..{int(y.max())}", f"labels in 0..{classes - 1}")


def check_values(x: Tensor, y: Tensor, classes: int | None = None) -> None:
    """Refuse pixels outside [0, 1] and labels outside 0..classes-1."""
    _check_pixels(x)
    first, last = int(y.min()), int(y.max())
    if first < 0 or (classes is not None and last >= classes):
        upper = "" if classes is None else str(classes - 1)
        refuse("y", f"labels in {first}..{last}", f"labels in 0..{upper}")


def make_batch(x: Tensor, y: Tensor, classes: int | None = None, index: Tensor | None = None) -> Batch:
    """Return a `Batch` of checked tensors; `index` defaults to 0, 1, 2, ...

    >>> make_batch(torch.tensor([[2.0]]), torch.tensor([0]))
    Traceback (most recent call last):
    bilaw.errors.Refused: x = 'values in [2, 2]' is not accepted; it takes values in [0, 1]; divide bytes by 255 ...
    """
    check_shapes(x, y)
    if classes is not None:
        whole_at_least("classes", classes, 2)
    check_values(x, y, classes)
    if index is None:
        index = torch.arange(len(x), device=x.device)
    if not isinstance(index, Tensor) or index.shape != y.shape or index.dtype != torch.int64:
        refuse("index", describe(index), f"an int64 tensor of shape ({len(x)},), the place of each row in its data set")
    return Batch(x, y, index)


def describe(value: object) -> str:
    """Return what a tensor is, in a few words; of anything else, its type.

    >>> describe(torch.zeros(2, 3))
    'float32 tensor of shape (2, 3)'
    """
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    return type(value).__name__
