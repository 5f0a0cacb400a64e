import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.margins import largest_other, margin, multiclass_margin

FLOAT64 = {"dtype": torch.float64}


@st.composite
def logits_and_labels(draw, largest=30.0):
    classes = draw(st.integers(2, 6))
    row = st.lists(st.floats(-largest, largest), min_size=classes, max_size=classes)
    rows = draw(st.lists(row, min_size=1, max_size=4))
    labels = [draw(st.integers(0, classes - 1)) for _ in rows]
    return rows, labels


def softmax(row):
    powers = [math.exp(z - max(row)) for z in row]
    return [power / math.fsum(powers) for power in powers]


@settings(deadline=None)
@given(logits_and_labels())
def test_margins_by_hand(drawn):
    rows, labels = drawn
    z, y = torch.tensor(rows, **FLOAT64), torch.tensor(labels)
    p = [softmax(row) for row in rows]
    delta = [[row[own] - other for other in row] for row, own in zip(p, labels, strict=True)]
    m = [min(d for j, d in enumerate(row) if j != own) for row, own in zip(delta, labels, strict=True)]
    torch.testing.assert_close(multiclass_margin(z, y), torch.tensor(delta, **FLOAT64), rtol=0, atol=1e-14)
    torch.testing.assert_close(margin(z, y), torch.tensor(m, **FLOAT64), rtol=0, atol=1e-14)
    others = [max(v for j, v in enumerate(row) if j != own) for row, own in zip(rows, labels, strict=True)]
    assert largest_other(z, y).tolist() == others


@settings(deadline=None)
@given(logits_and_labels(largest=1e4), st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
def test_margins_lie_in_minus_one_to_one(drawn, dtype):
    z, y = torch.tensor(drawn[0], dtype=dtype), torch.tensor(drawn[1])
    delta, m = multiclass_margin(z, y), margin(z, y)
    assert delta.shape == z.shape
    assert m.shape == y.shape
    assert delta.dtype == m.dtype == dtype
    assert ((delta >= -1) & (delta <= 1)).all()
    assert not delta.gather(1, y[:, None]).any()
    assert torch.equal(m, delta.scatter(1, y[:, None], 2).amin(1))
    assert (z.argmax(1)[m > 0] == y[m > 0]).all()
    assert (z.argmax(1)[m < 0] != y[m < 0]).all()


@settings(deadline=None)
@given(logits_and_labels(), st.randoms(use_true_random=False), st.floats(-50, 50))
def test_margins_follow_a_renaming_of_the_classes_and_ignore_a_shift(drawn, random, shift):
    z, y = torch.tensor(drawn[0], **FLOAT64), torch.tensor(drawn[1])
    order = list(range(z.shape[1]))
    random.shuffle(order)
    renamed = torch.tensor([order.index(int(own)) for own in y])
    torch.testing.assert_close(multiclass_margin(z[:, order] + shift, renamed), multiclass_margin(z, y)[:, order])
    torch.testing.assert_close(margin(z[:, order] + shift, renamed), margin(z, y))


def test_golden_values():
    z = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.25, 0.25, 0.5]], **FLOAT64).log()
    y = torch.tensor([0, 2, 1])
    delta = torch.tensor([[0, 0.2, 0.3], [-0.3, -0.1, 0], [0, 0, -0.25]], **FLOAT64)
    torch.testing.assert_close(multiclass_margin(z, y), delta)
    torch.testing.assert_close(margin(z, y), torch.tensor([0.2, -0.3, -0.25], **FLOAT64))
    assert largest_other(torch.tensor([[3.0, 1.0], [3.0, 1.0]]), torch.tensor([0, 1])).tolist() == [1.0, 3.0]


def test_gradients_are_those_of_the_formula():
    z = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), **FLOAT64).requires_grad_()
    y = torch.tensor([0, 1, 2, 3, 0])
    assert torch.autograd.gradcheck(lambda z: multiclass_margin(z, y), z)
    assert torch.autograd.gradcheck(lambda z: margin(z, y), z)
    assert torch.autograd.gradcheck(lambda z: largest_other(z, y), z)


@pytest.mark.parametrize("of", [margin, multiclass_margin])
def test_saturated_logits_have_finite_margins_and_gradients(of):
    z = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [1e4, 1e4, -1e4]], requires_grad=True)
    value = of(z, torch.tensor([0, 0, 1]))
    value.sum().backward()
    assert value.isfinite().all()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("of", [margin, multiclass_margin])
def test_one_label_for_many_rows_is_refused(of):
    with pytest.raises(ValueError, match="y = "):
        of(torch.rand(4, 3), torch.tensor([1]))
