"""Pillow's images as bytes: grey or RGB, whichever the first image of a set is. Nothing here imports Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bilaw.errors import refuse

GREY = ("1", "L", "LA", "La")


def is_picture(image: Any) -> bool:
    """Tell whether an object is an image of Pillow's, or like one."""
    return hasattr(image, "convert") and hasattr(image, "mode") and hasattr(image, "size")


def mode_of(picture: Any, where: str) -> str:
    """Return "L" for a grey image and "RGB" for any other; refuse pixels that a byte does not hold."""
    if picture.mode.startswith(("I", "F")):
        refuse(where, f"pixels of mode {picture.mode}", "images of 8 bits a channel, grey or colour")
    return "L" if picture.mode in GREY else "RGB"


def to_bytes(picture: Any, mode: str) -> Tensor:
    """Return an image as uint8 (channels, height, width)."""
    held = torch.from_numpy(np.array(picture.convert(mode), dtype=np.uint8))
    return held.unsqueeze(0) if held.ndim == 2 else held.permute(2, 0, 1).contiguous()
