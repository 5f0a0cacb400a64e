import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.datasets.arrays import compact, from_arrays, from_images
from bilaw.datasets.augment import to_unit
from bilaw.datasets.data import Images

DTYPES = st.sampled_from([np.uint8, np.float16, np.float32, np.float64])


def drawn(shape, dtype, seed=0):
    x = np.random.default_rng(seed).integers(256, size=shape, dtype=np.uint8)
    return x if dtype == np.uint8 else (x / 255).astype(dtype)


@settings(deadline=None)
@given(st.integers(5, 9), st.integers(5, 9), st.integers(1, 4), DTYPES, st.booleans(), st.booleans(), st.booleans())
def test_every_layout_gives_the_same_pixels(height, width, channels, dtype, last, tensor, big_endian):
    want = drawn((6, channels, height, width), dtype)
    given_ = want.transpose(0, 2, 3, 1) if last else want
    x = torch.from_numpy(given_) if tensor else given_.astype(given_.dtype.newbyteorder(">" if big_endian else "<"))
    half = from_arrays(x, np.arange(6))
    got = half.samples.x
    assert got.is_contiguous()
    assert np.array_equal(to_unit(got).numpy(), to_unit(torch.from_numpy(want.copy())).numpy())
    assert not any("layout" in note for note in half.notes)


@pytest.mark.parametrize(("tensor", "shape"), [(True, (1, 3, 8, 2)), (False, (1, 2, 3, 8))])
def test_where_both_layouts_are_possible_a_rule_decides_and_says_so(tensor, shape):
    x = np.zeros((5, 3, 8, 2), dtype=np.uint8)
    half = from_arrays(torch.from_numpy(x) if tensor else x, np.arange(5))
    assert half.samples.x.shape[1:] == shape[1:]
    assert "both layouts were possible" in half.notes[0]


def test_grey_images_get_one_channel():
    assert from_arrays(np.zeros((2, 28, 30), dtype=np.uint8), [0, 1]).samples.x.shape == (2, 1, 28, 30)


def test_read_only_and_reversed_arrays_are_read_and_the_users_bytes_are_shared():
    x = drawn((4, 8, 8), np.uint8)
    assert from_arrays(x, [0, 1, 0, 1]).samples.x.data_ptr() == x.ctypes.data
    frozen = x.copy()
    frozen.flags.writeable = False
    for array in (frozen[::-1], frozen):
        assert np.array_equal(from_arrays(array, [0, 1, 0, 1]).samples.x[:, 0].numpy(), array)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_that_are_bytes_over_255_become_those_bytes_and_nothing_is_lost(dtype):
    x = torch.arange(256).to(dtype).div(255).view(1, 16, 16)
    half = from_arrays(x, [0])
    assert half.samples.x.flatten().tolist() == list(range(256))
    assert torch.equal(to_unit(half.samples.x), x.float().unsqueeze(1))
    assert "kept as bytes" in half.notes[0]


def test_other_floats_stay_floats():
    x = torch.linspace(0, 1, 300)
    assert compact(x)[0] is x
    half = from_arrays(torch.full((2, 4, 4), 0.3), [0, 1])
    assert half.samples.x.dtype == torch.float32
    assert half.notes == ()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4"])
@pytest.mark.parametrize("column", [False, True])
def test_labels_of_any_integer_type(dtype, column):
    y = np.array([1, 0, 2], dtype=dtype)
    half = from_arrays(np.zeros((3, 4, 4), dtype=np.uint8), y.reshape(-1, 1) if column else y)
    assert half.samples.y.dtype == torch.int64
    assert half.samples.y.tolist() == [1, 0, 2]


BYTES = np.zeros((2, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (
            BYTES[0],
            [0] * 8,
            "train images = 'shape (8, 8)' is not accepted; it takes an array or tensor of shape",
        ),
        (BYTES[:0], [], "not empty"),
        (
            np.zeros((2, 9, 8, 7), dtype=np.uint8),
            [0, 1],
            "'shape (9, 8, 7) of one image' is not accepted; it takes 1",
        ),
        (BYTES.astype(np.int64), [0, 1], "whole numbers 0..255 become bytes by .astype('uint8')"),
        (torch.zeros(2, 8, 8, dtype=torch.bool), [0, 1], "train images = 'bool'"),
        (BYTES.astype(str), [0, 1], "train images = 'array of <U"),
        ([[0]], [0], "train images = 'list'"),
        (BYTES + 2.0, [0, 1], "'values in [2, 2]' is not accepted; it takes values in [0, 1]; divide bytes by 255 and"),
        (BYTES - 0.5, [0, 1], "values in [-0.5, -0.5]"),
        (BYTES * np.nan, [0, 1], "train images = 'NaN' is not accepted; it takes numbers in [0, 1]"),
        (BYTES + np.inf, [0, 1], "values in [inf, inf]"),
        (BYTES, [0], "train labels = 'shape (1,)' is not accepted; it takes shape (2,): one label for each image"),
        (BYTES, [0.0, 1.0], "train labels = 'float64' is not accepted; it takes an integer type"),
        (BYTES, [True, False], "train labels = 'bool'"),
        (BYTES, ["cat", "dog"], "numpy.unique(names, return_inverse=True)"),
        (BYTES, np.eye(2, dtype=int), "of one-hot rows, the argmax"),
    ],
)
def test_refusals(x, y, says):
    with pytest.raises(ValueError, match="is not accepted; it takes") as refusal:
        from_arrays(x, y)
    assert says in str(refusal.value)


@pytest.mark.parametrize("x", [torch.zeros(3, 8, 8), torch.zeros(0, 1, 8, 8), np.zeros((2, 1, 8, 8))])
def test_images_have_four_axes(x):
    with pytest.raises(ValueError, match=r"a non-empty tensor \(N, channels, height, width\)"):
        from_images(Images(x, torch.zeros(len(x), dtype=torch.int64)))
