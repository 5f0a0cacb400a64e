"""Small pictures of many samples in one image: clean ones, and what an attack changed, within so many bytes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from bilaw.analysis.measures import Array

QUALITIES = (75, 50, 30, 15)  # of clean pictures, the best that fits
LEVELS = (7, 5, 3)  # of a change, likewise; odd, so that one means none
TRIED = 400  # samples on which a size is estimated
LARGEST = 64  # pixels of a picture's side
SAFE = 0.97  # of the bytes there are: an estimate is one


class Sheet(NamedTuple):
    """Pictures in one image, row by row."""

    data: bytes  # WebP
    columns: int
    side: tuple[int, int]  # height and width of a picture
    rows: Array  # (m,) int: which sample each picture is of
    levels: int  # of a change; 0: a picture


def thumbnails(images: Array) -> Array:
    """Return images (n, channels, height, width) in [0, 1] as bytes (n, height, width, 1 or 3), none of them large."""
    step = math.ceil(max(images.shape[2:]) / LARGEST)
    shown = images[:, : 3 if images.shape[1] >= 3 else 1]
    if step > 1:
        n, c, high, wide = shown.shape
        cut = shown[:, :, : high // step * step, : wide // step * step]
        shown = cut.reshape(n, c, high // step, step, wide // step, step).mean(axis=(3, 5))
    small: Array = np.moveaxis(np.round(np.clip(shown, 0, 1) * 255).astype(np.uint8), 1, -1)
    return small


def clean_sheet(images: Array, budget: float) -> Sheet:
    """Return a sheet of thumbnails, as many and as good as `budget` bytes hold."""
    encoders = [lambda shown, q=quality: _encoded(shown, quality=q, method=4) for quality in QUALITIES]
    return _fitted(thumbnails(images), np.arange(len(images)), encoders, [0] * len(encoders), budget)


def change_sheet(changes: Array, order: Array, budget: float) -> Sheet:
    """Return a sheet of changes (n, ...) in [-1, 1] of each sample's largest, in a few levels; the first in `order`
    first, as many as `budget` bytes hold.
    """
    shown = thumbnails(changes[order] / 2 + 0.5)

    def encoder(levels: int) -> Callable[[Array], bytes]:
        half = (levels - 1) / 2
        return lambda some: _encoded(_levelled(some, half), lossless=True, method=4)

    return _fitted(shown, order, [encoder(levels) for levels in LEVELS], list(LEVELS), budget)


def _levelled(shown: Array, half: float) -> Array:
    level = np.round((shown.astype(np.float32) / 127.5 - 1) * half)
    return np.round((level / half + 1) * 127.5).astype(np.uint8)


def _fitted(shown: Array, rows: Array, encoders: list[Any], levels: list[int], budget: float) -> Sheet:
    """Return the sheet of the first encoder that fits, else as many samples as the last can hold."""
    some = _sheet(shown[:: max(1, len(shown) // TRIED)][:TRIED])
    tried = min(len(shown), TRIED)
    for encode, level in zip(encoders, levels, strict=True):  # noqa: B007 - the last one tried is used
        each = len(encode(some)) / max(tried, 1)
        if each * len(shown) <= SAFE * budget:
            break
    kept = min(len(shown), max(int(SAFE * budget / max(each, 1)), 0))
    while kept:
        sheet = _sheet(shown[:kept])
        data = encode(sheet)
        if len(data) <= budget:
            return Sheet(data, _columns(kept), shown.shape[1:3], rows[:kept], level)
        kept = int(kept * 0.9)
    return Sheet(b"", 1, shown.shape[1:3], rows[:0], level)


def _columns(count: int) -> int:
    return max(1, math.ceil(math.sqrt(count)))


def _sheet(shown: Array) -> Array:
    """Return pictures (n, height, width, channels) side by side."""
    n, high, wide, channels = shown.shape
    columns = _columns(n)
    lines = -(-n // columns)
    held = np.zeros((lines * columns, high, wide, channels), np.uint8)
    held[:n] = shown
    grid = held.reshape(lines, columns, high, wide, channels).swapaxes(1, 2)
    sheet: Array = grid.reshape(lines * high, columns * wide, channels)
    return sheet


def _encoded(sheet: Array, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(sheet[..., 0] if sheet.shape[-1] == 1 else sheet).save(out, "WEBP", **options)
    return out.getvalue()
