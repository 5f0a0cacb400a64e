"""The one kind of PNG that carries CIFAR-10: 8 bits, RGB, not interlaced.

Sixty lines here spare the users of one source an image library, and know the size beforehand, so that nothing larger
is ever unfolded.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bilaw.errors import refuse

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB = 3  # bytes a pixel


def decode(raw: bytes, width: int, height: int) -> NDArray[np.uint8]:
    """Return the pixels (height, width, 3) of an RGB image whose size is known."""
    expected, packed = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), []
    for kind, data in _chunks(raw):
        if kind == b"IHDR" and data != expected:
            refuse("PNG", f"a header of {data.hex(' ')}", f"{expected.hex(' ')}: 8-bit RGB of {width} x {height}")
        if kind == b"IDAT":
            packed.append(data)
    row = 1 + RGB * width
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(b"".join(packed), row * height)
    if len(content) != row * height or not (unpacking.eof or unpacking.decompress(unpacking.unconsumed_tail, 1) == b""):
        refuse("PNG", f"{len(content)} bytes, or more", f"{row * height} bytes of pixels")
    lines = np.frombuffer(content, np.uint8).reshape(height, row)
    pixels = np.empty((height, RGB * width), np.uint8)
    above = np.zeros(RGB * width, np.uint8)
    for at, line in enumerate(lines):
        pixels[at] = above = _unfilter(int(line[0]), line[1:], above)
    return pixels.reshape(height, width, RGB)


def _chunks(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (kind, data) of the chunks up to the last one, each with its checksum right."""
    if not raw.startswith(SIGNATURE):
        refuse("PNG", f"a file that starts with {raw[:8].hex(' ')}", f"one that starts with {SIGNATURE.hex(' ')}")
    at, kind = len(SIGNATURE), b""
    while kind != b"IEND":
        if len(raw) < at + 12:
            refuse("PNG", f"{len(raw)} bytes", "a whole file")
        size, kind = struct.unpack_from(">I4s", raw, at)
        data, crc = raw[at + 8 : at + 8 + size], raw[at + 8 + size : at + 12 + size]
        if crc != zlib.crc32(kind + data).to_bytes(4, "big"):
            refuse("PNG", f"a damaged chunk at byte {at}", "chunks whose checksums are right")
        yield kind, data
        at += 12 + size


def _unfilter(kind: int, line: NDArray[np.uint8], above: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a row of pixels: each byte was stored less a prediction from its left, upper and upper left neighbours."""
    if kind == 0:
        return line
    if kind == 1:
        left: NDArray[np.uint8] = np.cumsum(line.reshape(-1, RGB), axis=0, dtype=np.uint8).ravel()
        return left
    if kind == 2:
        return line + above
    if kind > 4:
        refuse("PNG", f"filter {kind}", "one of 0 to 4")
    row, upper = bytearray(RGB) + line.tobytes(), bytes(RGB) + above.tobytes()
    for at in range(RGB, len(row)):
        a, b, c = row[at - RGB], upper[at], upper[at - RGB]
        row[at] = (row[at] + ((a + b) // 2 if kind == 3 else _paeth(a, b, c))) & 255
    return np.frombuffer(row, np.uint8)[RGB:]


def _paeth(a: int, b: int, c: int) -> int:
    """Return the neighbour nearest to a + b - c; ties go to the left, then the upper one."""
    return min((a, b, c), key=lambda near: abs(a + b - c - near))
