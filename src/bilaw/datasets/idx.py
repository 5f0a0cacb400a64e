"""The IDX format of MNIST: two zero bytes, the type (8: unsigned byte), the number of dimensions, the dimensions."""

from __future__ import annotations

import math
import struct

import torch
from torch import Tensor

from bilaw.errors import refuse


def parse(raw: bytearray, dims: int, where: str) -> Tensor:
    """Return the uint8 tensor in the bytes of an IDX file, which it shares; the header is checked against their number.

    >>> parse(bytearray([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), 1, "labels").tolist()
    [7, 9]
    """
    header = 4 + 4 * dims
    magic = bytes([0, 0, 8, dims])
    if len(raw) < header or raw[:4] != magic:
        refuse(
            where, f"a file that starts with {bytes(raw[:4]).hex(' ')}", f"IDX bytes that start with {magic.hex(' ')}"
        )
    shape = struct.unpack_from(f">{dims}I", raw, 4)
    if math.prod(shape) != len(raw) - header or 0 in shape:
        refuse(where, f"{len(raw) - header} bytes after a header that says {shape}", f"{math.prod(shape)} bytes")
    return torch.frombuffer(raw, dtype=torch.uint8, offset=header).view(shape)


def encode(values: Tensor) -> bytes:
    """Return the IDX file of a uint8 tensor."""
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.contiguous().numpy().tobytes()
