"""What AutoAttack is made of: the projection onto a hyperplane, DLR, checkpoints, target classes."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from attack_kit import seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog

from bilaw.attacks.autoattack import APGD, FAB, Square, apgd
from bilaw.attacks.autoattack.pending import likeliest
from bilaw.attacks.autoattack.projection import to_hyperplane
from bilaw.attacks.autoattack.ratio import dlr, targeted_dlr
from bilaw.types import Batch

# The projection

PIXELS = st.one_of(st.sampled_from([0.0, 0.25, 1.0]), st.floats(0, 1).map(lambda u: round(u, 4)))
SLOPES = st.one_of(st.sampled_from([0.0, 0.0, 1.0, -1.0]), st.floats(-4, 4).map(lambda u: round(u, 3)))


@st.composite
def planes(draw):
    """Draw a point, a normal and an offset in or out of the box's reach, with the point before or beyond."""
    n = draw(st.integers(1, 7))
    x = np.array(draw(st.lists(PIXELS, min_size=n, max_size=n)))
    w = np.array(draw(st.lists(SLOPES, min_size=n, max_size=n)))
    low, high = np.minimum(w, 0).sum(), np.maximum(w, 0).sum()
    share = draw(st.one_of(st.floats(0, 1), st.floats(-0.5, 1.5), st.sampled_from([0.0, 1.0])))
    return x, w, low + share * (high - low)


def projected(x, w, b, norm):
    (d,) = to_hyperplane(*(torch.tensor(np.array([value])) for value in (x, w, b)), norm)
    return d.numpy()


def furthest(x, w, c):
    """Return the move to the corner of the box where <w, x + d> comes nearest to the plane on the far side."""
    up = np.sign(w) * (1 if c >= 0 else -1)
    return np.where(up > 0, 1 - x, np.where(up < 0, -x, 0))


@settings(deadline=None, max_examples=150)
@given(planes())
def test_the_nearest_point_of_a_hyperplane_in_linf_is_that_of_linear_programming(plane):
    x, w, b = plane
    d, c, reach = projected(x, w, b, "linf"), b - w @ x, furthest(x, w, b - w @ x)
    assert ((x + d >= -1e-12) & (x + d <= 1 + 1e-12)).all()
    if abs(w @ reach) <= abs(c) + 1e-9:
        np.testing.assert_allclose(d, reach, rtol=0, atol=1e-7)
        return
    n, one = len(x), np.ones((len(x), 1))
    least = linprog(
        np.eye(n + 1)[n],
        A_ub=np.block([[np.eye(n), -one], [-np.eye(n), -one]]),
        b_ub=np.zeros(2 * n),
        A_eq=np.append(w, 0)[None],
        b_eq=[c],
        bounds=[*zip(-x, 1 - x, strict=True), (0, None)],
    )
    assert least.status == 0
    assert w @ d == pytest.approx(c, abs=1e-9)
    assert np.abs(d).max() == pytest.approx(least.fun, abs=1e-7)


@settings(deadline=None, max_examples=150)
@given(planes())
def test_the_nearest_point_of_a_hyperplane_in_l2_satisfies_its_optimality_conditions(plane):
    """The only minimiser is d(m) = clip(m w) to the box, at the m where it meets the plane."""
    x, w, b = plane
    d, c, reach = projected(x, w, b, "l2"), b - w @ x, furthest(x, w, b - w @ x)
    if abs(w @ reach) <= abs(c) + 1e-9:
        np.testing.assert_allclose(d, reach, rtol=0, atol=1e-7)
        return

    def moved(m):
        return np.clip(m * w, -x, 1 - x)

    end = 2 * math.copysign(1 / np.abs(w[w != 0]).min(), c)
    m = brentq(lambda m: w @ moved(m) - c, min(0, end), max(0, end), xtol=1e-14)
    np.testing.assert_allclose(d, moved(m), rtol=0, atol=1e-9)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_plane_without_a_normal_moves_nothing_and_neither_do_the_others_in_the_batch(norm):
    x, w = torch.rand(3, 5, generator=seeded()), torch.randn(3, 5, generator=seeded(1))
    b = (w * x).sum(1) + torch.tensor([0.1, 0.5, -0.2])
    alone = [to_hyperplane(x[i : i + 1], w[i : i + 1], b[i : i + 1], norm)[0] for i in (0, 2)]
    w[1] = 0
    together = to_hyperplane(x, w, b, norm)
    assert not together[1].any()
    torch.testing.assert_close(together[[0, 2]], torch.stack(alone), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_plane_is_reached_from_images_in_single_precision(norm):
    x, w = torch.rand(20, 3072, generator=seeded()), torch.randn(20, 3072, generator=seeded(1))
    room = torch.where(w > 0, 1 - x, x)
    for share in (1e-4, 0.1, 0.5, 0.9, 0.999):
        c = share * (w.abs() * room).sum(1)
        d = to_hyperplane(x, w, (w * x).sum(1) + c, norm)
        torch.testing.assert_close((w * d).sum(1), c, rtol=1e-3, atol=1e-3)
        assert ((x + d >= 0) & (x + d <= 1 + 1e-6)).all()


# The difference of logits ratio


def test_dlr_by_hand():
    logits = torch.tensor([[4.0, 3.0, 2.0, 0.0], [1.0, 5.0, 3.0, -1.0]], dtype=torch.float64)
    y, target = torch.tensor([0, 2]), torch.tensor([3, 0])
    assert dlr(logits, y).tolist() == pytest.approx([-1 / 2, 2 / 4])
    assert targeted_dlr(logits, y, target).tolist() == pytest.approx([-4 / 3, -2 / 5])


def test_dlr_of_three_classes_and_of_two():
    three, two = torch.tensor([[3.0, 1.0, 0.5]]), torch.tensor([[3.0, 1.0]])
    y, target = torch.tensor([0]), torch.tensor([1])
    assert dlr(three, y).item() == pytest.approx(-2 / 2.5)
    assert targeted_dlr(three, y, target).item() == pytest.approx(-2 / 2.5)
    assert targeted_dlr(three, y, torch.tensor([2])).item() == pytest.approx(-1)
    assert dlr(two, y).item() == targeted_dlr(two, y, target).item() == -2


@settings(deadline=None, max_examples=60)
@given(st.integers(3, 6), st.floats(-50, 50), st.floats(0.01, 100), st.integers(0, 999))
def test_dlr_does_not_see_shifts_and_scales(classes, shift, scale, seed):
    logits = torch.randn(8, classes, generator=seeded(seed), dtype=torch.float64)
    y = torch.arange(8) % classes
    for loss in (lambda z: dlr(z, y), lambda z: targeted_dlr(z, y, (y + 1) % classes)):
        torch.testing.assert_close(loss(scale * logits + shift), loss(logits), rtol=1e-6, atol=1e-6)


def test_dlr_of_equal_logits_is_a_number():
    for k in (2, 3, 4, 10):
        logits, y = torch.ones(1, k), torch.tensor([0])
        assert dlr(logits, y).item() == targeted_dlr(logits, y, y + 1).item() == 0


# Checkpoints and targets


def test_checkpoints_of_100_steps_are_the_papers():
    """p_0 = 0, p_1 = 0.22, p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06), here in hundredths; w_j = p_j N."""
    p = [0, 22]
    while p[-1] <= 100:
        p.append(p[-1] + max(p[-1] - p[-2] - 3, 6))
    steps_done = [at + 1 for at in apgd._checkpoints(100)]
    assert steps_done == [at for at in p[1:] if at <= 100] == [22, 41, 57, 70, 80, 87, 93, 99]


@pytest.mark.parametrize("steps", [1, 2, 5, 10, 33, 100, 1000])
def test_checkpoints_lie_as_many_steps_apart_as_they_say(steps):
    found = apgd._checkpoints(steps)
    at = [-1, *found]
    assert [later - earlier for earlier, later in pairwise(at)] == list(found.values())
    assert 0 <= min(found) <= max(found) < steps


def test_likeliest_are_the_wrong_classes_in_order():
    logits = torch.tensor([[1.0, 4.0, 3.0, 2.0], [9.0, -1.0, 0.0, 8.0]])
    y = torch.tensor([1, 3])
    assert likeliest(logits, y, 9).tolist() == [[2, 3, 0], [0, 2, 1]]
    assert likeliest(logits, y, 2).tolist() == [[2, 3], [0, 2]]
    assert likeliest(logits[:, :2], torch.tensor([1, 0]), 9).tolist() == [[0], [1]]


# What is refused


@pytest.mark.parametrize(
    ("make", "setting", "accepted"),
    [
        (lambda: APGD(0.1, "l1"), "norm = 'l1'", "one of l2, linf"),
        (lambda: APGD(0.1, loss="cw"), "loss = 'cw'", "one of ce, dlr, targeted-dlr"),
        (lambda: APGD(0.1, steps=0), "steps = 0", "a whole number >= 1"),
        (lambda: APGD(0.1, targets=0), "targets = 0", "a whole number >= 1"),
        (lambda: APGD(0.1, restarts=1.5), "restarts = 1.5", "a whole number >= 1"),
        (lambda: FAB(0.1, "l1"), "norm = 'l1'", "one of l2, linf"),
        (lambda: FAB(0.1, targets=0), "targets = 0", "a whole number >= 1"),
        (lambda: Square(0.1, "l1"), "norm = 'l1'", "one of l2, linf"),
        (lambda: Square(0.1, queries=0), "queries = 0", "a whole number >= 1"),
        (lambda: Square(0.1, share=0), "share = 0", "above 0 and at most 1"),
        (lambda: Square(0.1, share=1.1), "share = 1.1", "above 0 and at most 1"),
    ],
)
def test_refusals_name_setting_value_and_what_is_accepted(make, setting, accepted):
    with pytest.raises(ValueError, match="is not accepted; it takes") as error:
        make()
    assert setting in str(error.value)
    assert accepted in str(error.value)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("w", [[0.0] * 5, [1e-20, 0, 0, 0, 0], [1e18] * 5, [1e-38, 1, 0, 0, 0]], ids=str)
def test_no_hyperplane_moves_a_point_out_of_numbers(norm, w):
    x = torch.rand(2, 5, generator=torch.Generator().manual_seed(0))
    d = to_hyperplane(x, torch.tensor([w, w]), torch.tensor([5.0, -5.0]), norm)
    assert d.isfinite().all()
    assert ((x + d >= -1e-6) & (x + d <= 1 + 1e-6)).all()
    if not any(w):
        assert not d.any()


def test_fab_goes_on_where_there_is_no_slope():
    """Behind the boundary it sees a wide flat zone of the wrong class, from which it has to be drawn back."""

    def cliff(x):
        assert not x.isnan().any()
        u = x[:, 0] - 0.7
        rise = torch.where(u < 0, 10 * u, 9 + 0 * u)
        return torch.stack([torch.zeros_like(rise), rise], dim=1)

    x = torch.tensor([[0.5, 0.5]])
    found = FAB(0.25, "l2", steps=40)(cliff, Batch(x, torch.tensor([0]), torch.tensor([0])), None)
    assert cliff(found.x).argmax(1).item() == 1
