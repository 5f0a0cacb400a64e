"""One sample of a map-style data set: which part is the image, which the label, and the image as (C, H, W)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from bilaw.datasets.arrays import FIRST, LAST, check_range, layout, to_tensor
from bilaw.datasets.pictures import is_picture, mode_of, to_bytes
from bilaw.errors import refuse

IMAGE_KEYS = ("image", "img", "pixel_values", "x")
LABEL_KEYS = ("label", "labels", "fine_label", "target", "y")
PLANE = "(height, width)"


class Form(NamedTuple):
    """How the images of a set are read, decided by its first one."""

    kind: str  # of Pillow's images the mode, L or RGB; of arrays and tensors the layout
    sure: bool  # no other layout was possible


def key_of(sample: Mapping[str, Any], keys: tuple[str, ...], where: str) -> str:
    """Return the first of `keys` that a sample has."""
    for key in keys:
        if key in sample:
            return key
    return refuse(where, f"keys {', '.join(map(str, sample))}", f"a dict with one of the keys {', '.join(keys)}")


def parts(sample: Any, where: str) -> tuple[Any, Any]:
    """Return the image and the label of a sample.

    >>> parts({"img": "picture", "label": 3}, "train 0")
    ('picture', 3)
    """
    if isinstance(sample, Mapping):
        return sample[key_of(sample, IMAGE_KEYS, where)], sample[key_of(sample, LABEL_KEYS, where)]
    if isinstance(sample, tuple | list) and len(sample) >= 2:
        return sample[0], sample[1]
    return refuse(where, type(sample).__name__, "a pair (image, label), or a dict with keys such as image and label")


def form_of(image: Any, where: str) -> Form:
    """Return how an image is to be read, and all others of its set."""
    if is_picture(image):
        return Form(mode_of(image, where), True)
    shape = tuple(np.shape(image)) if isinstance(image, Tensor | np.ndarray | list) else ()
    if len(shape) == 2:
        return Form(PLANE, True)
    if len(shape) != 3:
        found = f"shape {shape}" if shape else type(image).__name__
        refuse(where, found, "an image: Pillow's, or an array or tensor (H, W), (H, W, C) or (C, H, W)")
    return Form(*layout(shape, isinstance(image, Tensor), where))


def pixels(image: Any, form: Form, where: str) -> Tensor:
    """Return an image as (channels, height, width), uint8 or floats in [0, 1]."""
    if is_picture(image):
        mode_of(image, where)
        return to_bytes(image, form.kind if form.kind in ("L", "RGB") else "RGB")
    held = to_tensor(np.asarray(image) if isinstance(image, list) else image, where)
    if held.ndim != (2 if form.kind == PLANE else 3) or form.kind not in (PLANE, FIRST, LAST):
        refuse(where, f"shape {tuple(held.shape)}", f"images like the first one, {form.kind}")
    check_range(held, where)
    if form.kind == PLANE:
        return held.unsqueeze(0)
    return held.permute(2, 0, 1) if form.kind == LAST else held


def label(value: Any, where: str) -> int:
    """Return a label as an int, refusing anything but a whole number."""
    if isinstance(value, Tensor | np.ndarray) and value.ndim <= 1 and np.asarray(value).size == 1:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        refuse(f"{where} label", value, "a whole number 0, 1, 2, ...")
    return int(value)
