from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.weighting import normalise

both_ways = pytest.mark.parametrize("by_sum", [True, False])
weights = st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=20)


def double(values):
    return torch.tensor(values, dtype=torch.float64)


@settings(deadline=None)
@given(weights)
def test_the_sum_is_one_and_proportions_are_kept(values):
    w, total = normalise(double(values)), math.fsum(values)
    assert float(w.sum()) == pytest.approx(1, abs=1e-12)
    expected = [value / total for value in values] if total > 0 else [1 / len(values)] * len(values)
    assert w.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-300)


@settings(deadline=None)
@given(values=weights, exponent=st.integers(-200, 200))
def test_a_common_factor_does_not_matter(values, exponent):
    raw = double([value if value > 1e-6 else 0.0 for value in values])
    torch.testing.assert_close(normalise(raw * 2.0**exponent), normalise(raw), rtol=1e-12, atol=0)


@settings(deadline=None)
@given(weights)
def test_official_codes_divide_by_the_size_of_the_batch(values):
    if any(values):
        assert normalise(double(values), by_sum=False).tolist() == [value / len(values) for value in values]


@both_ways
@pytest.mark.parametrize("size", [1, 2, 7, 128])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weights_that_are_all_zero_count_uniformly(by_sum, size, dtype):
    w = normalise(torch.zeros(size, dtype=dtype), by_sum)
    assert w.dtype == dtype
    torch.testing.assert_close(w, torch.full((size,), 1 / size, dtype=dtype))


@both_ways
def test_weights_that_are_all_zero_have_a_gradient_of_zero_rather_than_none_or_nan(by_sum):
    raw = torch.zeros(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(normalise(raw, by_sum)[0], raw)
    assert torch.equal(gradient, torch.zeros(3))


@pytest.mark.parametrize("value", [1e-300, 0.3, 1.0, 1e300])
def test_a_single_sample_has_weight_one(value):
    assert normalise(double([value])).tolist() == [1.0]


def test_a_single_sample_of_an_official_code_keeps_its_weight():
    assert normalise(double([0.3]), by_sum=False).tolist() == [0.3]


@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-38, 1e-20, 1e20, 1e37])
def test_very_small_and_very_large_weights_survive(scale):
    w = normalise(torch.tensor([2.0, 1.0, 0.0, 5.0]) * scale)
    assert float(w.sum()) == pytest.approx(1, abs=1e-6)
    kept = torch.tensor([2.0, 1.0, 0.0, 5.0]) * scale / scale  # subnormals have few digits
    torch.testing.assert_close(w, kept / kept.sum(), rtol=1e-4, atol=0)


def test_many_of_the_largest_weights_do_not_overflow():
    torch.testing.assert_close(normalise(torch.full((1000,), 1e38)), torch.full((1000,), 1e-3))
    mixed = normalise(torch.tensor([1e38, 1e38, 1e-40]))
    torch.testing.assert_close(mixed[:2], torch.tensor([0.5, 0.5]))
    assert float(mixed[2]) == 0


@both_ways
@pytest.mark.parametrize(
    ("values", "place", "value"),
    [
        ([1, math.nan, 2], 1, "nan"),
        ([math.inf, 1, 2], 0, "inf"),
        ([1, 2, -math.inf], 2, "-inf"),
        ([1, -0.5, -1], 1, "-0.5"),
        ([0, 0, -1e-30], 2, "-1e-30"),
        ([math.nan], 0, "nan"),
    ],
)
def test_what_is_not_a_weight_is_refused_with_its_place_and_value(by_sum, values, place, value):
    with pytest.raises(ValueError, match="is not accepted; a weight is a finite number >= 0") as caught:
        normalise(double(values), by_sum)
    assert f"weights = {value} at place {place} of the batch" in str(caught.value)
    bad = [i for i, v in enumerate(values) if not 0 <= v < math.inf]
    assert f"({len(bad)} of {len(values)} are bad, at {bad})" in str(caught.value)


def test_minus_zero_is_zero():
    assert normalise(torch.tensor([-0.0, 2.0])).tolist() == [0, 1]
    assert normalise(torch.tensor([-0.0, -0.0])).tolist() == [0.5, 0.5]


@both_ways
@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (), (0,)], ids=str)
def test_weights_that_are_not_one_number_per_sample_are_refused(by_sum, shape):
    """(B, 1), as nn.Linear gives it, times the robust terms (B,) would be (B, B), and silently wrong."""
    with pytest.raises(ValueError, match=r"weights = .* is not accepted"):
        normalise(torch.ones(shape), by_sum)


@both_ways
def test_the_argument_is_left_as_it_was(by_sum):
    raw = torch.tensor([3.0, 1.0])
    normalise(raw, by_sum)
    assert raw.tolist() == [3, 1]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), st.booleans())
def test_the_gradient_is_that_of_the_quotient(values, by_sum):
    raw = double(values).requires_grad_()
    size, total = len(values), math.fsum(values)
    for i in range(size):
        (gradient,) = torch.autograd.grad(normalise(raw, by_sum)[i], raw)
        for j in range(size):  # d (r_i / R) / d r_j = (delta_ij - r_i / R) / R
            by_hand = ((i == j) - values[i] / total) / total if by_sum else (i == j) / size
            assert float(gradient[j]) == pytest.approx(by_hand, rel=1e-10, abs=1e-12)


@both_ways
def test_the_gradient_equals_central_differences(by_sum):
    raw, along, h = double([0.2, 1.5, 0.0, 3.0]).requires_grad_(), double([0.3, -1.0, 0.0, 2.0]), 1e-6
    c = double([1.0, -2.0, 0.5, 3.0])
    (gradient,) = torch.autograd.grad(c @ normalise(raw, by_sum), raw)
    ahead, behind = (float(c @ normalise(raw.detach() + sign * h * along, by_sum)) for sign in (1, -1))
    assert float(gradient @ along) == pytest.approx((ahead - behind) / (2 * h), rel=1e-8)


@pytest.mark.parametrize("at", [-60.0, -80.0, -90.0])
def test_the_gradient_survives_weights_that_have_collapsed_towards_zero(at):
    """For raw = exp(z), d w_0 / d z is w_0 (delta_0j - w_j), until 1 / raw is no float."""
    z = (torch.tensor([0.0, 1.0]) + at).requires_grad_()
    (gradient,) = torch.autograd.grad(normalise(z.exp())[0], z)
    w0 = 1 / (1 + math.e)
    assert gradient.tolist() == pytest.approx([w0 * (1 - w0), -w0 * (1 - w0)], rel=1e-3)
