"""The PNG decoder against an encoder written the other way round, and against an image library."""

import io
import re
import zlib

import numpy as np
import pytest
import sources_kit as kit
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.datasets.sources.png import decode

filters = st.lists(st.integers(0, 4), min_size=1, max_size=6)


@given(filters, st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_decoding_undoes_encoding(kinds, width, seed):
    rows = np.random.default_rng(seed).integers(0, 256, (len(kinds), width, 3), np.uint8)
    assert np.array_equal(decode(kit.png(rows, kinds), width, len(kinds)), rows)


def test_an_image_library_reads_the_same():
    image = pytest.importorskip("PIL.Image")
    rows = np.random.default_rng(0).integers(0, 256, (10, 33, 3), np.uint8)
    theirs = image.open(io.BytesIO(kit.png(rows, [0, 1, 2, 3, 4] * 2)))
    assert np.array_equal(np.asarray(theirs), rows)
    out = io.BytesIO()
    image.fromarray(np.sort(rows, axis=1)).save(out, "png", optimize=True)
    assert np.array_equal(decode(out.getvalue(), 33, 10), np.sort(rows, axis=1))


ROWS = np.zeros((2, 3, 3), np.uint8)
GOOD = kit.png(ROWS, [0, 0])
END = kit.chunk(b"IEND", b"")


def with_pixels(data):
    start = GOOD.index(b"IDAT") - 4
    return GOOD[:start] + kit.chunk(b"IDAT", data) + END


BAD = {
    "not a PNG": (b"GIF89a", "a file that starts with 47 49 46"),
    "empty": (b"", "a file that starts with"),
    "another size": (kit.png(np.zeros((2, 4, 3), np.uint8), [0, 0]), "8-bit RGB of 3 x 2"),
    "cut": (GOOD[:-6], "is not accepted"),
    "no end": (GOOD[: -len(END)], "a whole file"),
    "damaged": (GOOD.replace(b"IDAT", b"IDAU", 1), "a damaged chunk"),
    "too few pixels": (with_pixels(zlib.compress(bytes(19))), "'19 bytes, or more'"),
    "too many pixels": (with_pixels(zlib.compress(bytes(21))), "'20 bytes, or more'"),
    "a bomb": (with_pixels(zlib.compress(bytes(10_000_000))), "'20 bytes, or more'"),
    "no such filter": (with_pixels(zlib.compress(bytes([5]) + bytes(19))), "filter 5"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_image_is_refused(case):
    raw, why = BAD[case]
    with pytest.raises(ValueError, match=re.escape(why)):
        decode(raw, 3, 2)
