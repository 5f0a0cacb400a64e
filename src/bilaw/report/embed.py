"""Bytes and values inside an HTML page that loads nothing from anywhere."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

DIGITS = 6  # significant ones, of numbers that a page shows


def packed(data: bytes) -> str:
    """Return bytes deflated, in base64: the page inflates them with the browser's own DecompressionStream."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def as_json(value: Any) -> bytes:
    """Return a value as JSON; what is no number is null."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":")).encode()


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: arrays as lists, numbers with as many digits as a figure can show.

    >>> plain({"a": np.array([0.123456789, np.nan]), "b": np.int64(2)})
    {'a': [0.123457, None], 'b': 2}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


class Columns:
    """Named arrays in one run of bytes, each beginning at a multiple of eight, as JavaScript's typed arrays want it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.about: list[dict[str, Any]] = []

    def add(self, name: str, values: Any, kind: str) -> None:
        """Add an array as `kind`, a name of numpy's: "uint8", "uint16", "uint32", "float32"."""
        held = np.ascontiguousarray(values).astype(np.dtype(kind).newbyteorder("<"))
        self.about.append({"name": name, "kind": kind, "at": len(self.data), "count": held.size})
        self.data += held.tobytes()
        self.data += bytes(-len(self.data) % 8)
