"""IDX files and their reader."""

import re
from contextlib import suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.datasets import idx, mnist

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(shapes, st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_parsing_undoes_encoding(shape, seed):
    values = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(idx.parse(bytearray(idx.encode(values)), len(shape), "values"), values)


def test_encoding_a_view_gives_what_it_shows():
    values = torch.arange(12, dtype=torch.uint8).view(3, 4)
    assert idx.encode(values.T) == idx.encode(values.T.contiguous())


@given(st.binary(max_size=40), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_parsed_or_refused(raw, dims):
    with suppress(ValueError):  # any other error would be a traceback
        assert idx.parse(bytearray(raw), dims, "file").ndim == dims


BAD = {
    "empty": (b"", "starts with "),
    "another type": (bytes([0, 0, 9, 1, 0, 0, 0, 1, 7]), "starts with 00 00 09 01"),
    "other dimensions": (bytes([0, 0, 8, 3, 0, 0, 0, 1, 7]), "starts with 00 00 08 03"),
    "gzip": (b"\x1f\x8b\x08\x00" + bytes(9), "starts with 1f 8b 08 00"),
    "too few": (bytes([0, 0, 8, 1, 0, 0, 0, 3, 7]), "it takes 3 bytes"),
    "too many": (bytes([0, 0, 8, 1, 0, 0, 0, 1, 7, 7]), "it takes 1 bytes"),
    "none": (bytes([0, 0, 8, 1, 0, 0, 0, 0]), "a header that says"),
    "absurdly many": (bytes([0, 0, 8, 1, 255, 255, 255, 255, 7]), "it takes 4294967295 bytes"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused(case):
    raw, why = BAD[case]
    with pytest.raises(ValueError, match=re.escape(why)):
        idx.parse(bytearray(raw), 1, "labels")


def pair(n=3, labels=(0, 9, 4)):
    images = torch.arange(n * 4, dtype=torch.uint8).view(n, 2, 2)
    return bytearray(idx.encode(images)), bytearray(idx.encode(torch.tensor(labels, dtype=torch.uint8)))


def test_images_and_labels_are_read():
    held = mnist.read(*pair())
    assert held.x.shape == (3, 1, 2, 2)
    assert (held.x.dtype, held.y.dtype, held.y.tolist()) == (torch.uint8, torch.int64, [0, 9, 4])


@pytest.mark.parametrize(("labels", "why"), [((1, 2), "labels = 2 .* 3 of them"), ((0, 10, 1), r"labels in 0\.\.9")])
def test_labels_that_do_not_fit_are_refused(labels, why):
    with pytest.raises(ValueError, match=why):
        mnist.read(*pair(labels=labels))
