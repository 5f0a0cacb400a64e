"""The door: what `make_batch` and the table look-ups let through, and how they refuse the rest."""

import math
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bilaw.algorithm import Method, bilaw_step, weighted_step
from bilaw.attacks import ATTACKS, NORMS, OBJECTIVES, PGD, STARTS, NoAttack, TopFraction, fast_fgsm
from bilaw.checks import make_batch
from bilaw.derivatives import DERIVATIVES
from bilaw.errors import look_up, number_at_least, whole_at_least
from bilaw.losses import LOSSES, AdversarialCE
from bilaw.models import MODELS
from bilaw.net import Net
from bilaw.types import Adversarial, Batch
from bilaw.weighting import FEATURES, SCHEMES, NonParametric, Uniform

TABLES = {
    "attack": ATTACKS,
    "norm": NORMS,
    "objective": OBJECTIVES,
    "start": STARTS,
    "loss": LOSSES,
    "scheme": SCHEMES,
    "features": FEATURES,
    "derivative": DERIVATIVES,
    "model": MODELS,
}
X, Y = torch.rand(4, 1, 3, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 1])


def but(tensor, value, place=0):
    changed = tensor.clone()
    changed.view(-1)[place] = value
    return changed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_good_tensors_pass_untouched(dtype):
    x = but(but(X.to(dtype), 0), 1, 5)
    batch = make_batch(x, Y, classes=3)
    assert batch.x is x
    assert batch.y is Y
    assert batch.index.tolist() == [0, 1, 2, 3]
    assert make_batch(x, Y, index=Y).index is Y
    assert make_batch(x, 1000 * Y).y.max() == 2000  # without a class count any label >= 0 will do


@pytest.mark.parametrize(
    ("x", "y", "classes", "setting", "accepted"),
    [
        (X * 255, Y, 3, "x = 'values in [", "values in [0, 1]; divide bytes by 255"),
        (but(X, -1e-6), Y, 3, "x = 'values in [-1e-06,", "values in [0, 1]"),
        (but(X, 1.001), Y, 3, "1.001]'", "make normalisation a layer of the model"),
        (but(X, math.nan, 17), Y, 3, "x = 'values in [nan, nan]'", "values in [0, 1]"),
        (but(X, math.inf), Y, 3, "inf]'", "values in [0, 1]"),
        (but(X, -math.inf), Y, 3, "x = 'values in [-inf", "values in [0, 1]"),
        (X, but(Y, -1), 3, "y = 'labels in -1..2'", "labels in 0..2"),
        (X, but(Y, -1), None, "y = 'labels in -1..2'", "labels in 0.."),
        (X, Y, 2, "y = 'labels in 0..2'", "labels in 0..1"),
        (X, but(Y, 10, 3), 10, "y = 'labels in 0..10'", "labels in 0..9"),
        (X, Y[:3], 3, "y = 'int64 tensor of shape (3,)'", "an int64 tensor of shape (4,)"),
        (X, Y[:1], 3, "y = 'int64 tensor of shape (1,)'", "an int64 tensor of shape (4,)"),
        (X, Y[:, None], 3, "y = 'int64 tensor of shape (4, 1)'", "an int64 tensor of shape (4,)"),
        (X, torch.tensor(1), 3, "y = 'int64 tensor of shape ()'", "an int64 tensor of shape (4,)"),
        (X, Y.float(), 3, "y = 'float32 tensor of shape (4,)'", "an int64 tensor"),
        (X, Y.int(), 3, "y = 'int32 tensor of shape (4,)'", "an int64 tensor"),
        (X, Y.bool(), 3, "y = 'bool tensor of shape (4,)'", "an int64 tensor"),
        (X, Y.tolist(), 3, "y = 'list'", "an int64 tensor"),
        (X, None, 3, "y = 'NoneType'", "an int64 tensor"),
        (X.long(), Y, 3, "x = 'int64 tensor of shape (4, 1, 3, 3)'", "floating-point tensor"),
        ((X * 255).byte(), Y, 3, "x = 'uint8 tensor of shape (4, 1, 3, 3)'", "floating-point tensor"),
        (X > 0.5, Y, 3, "x = 'bool tensor of shape (4, 1, 3, 3)'", "floating-point tensor"),
        (X.to(torch.complex64), Y, 3, "x = 'complex64 tensor", "floating-point tensor"),
        (X[:0], Y[:0], 3, "x = 'float32 tensor of shape (0, 1, 3, 3)'", "a non-empty"),
        (X[:, :, :0], Y, 3, "x = 'float32 tensor of shape (4, 1, 0, 3)'", "a non-empty"),
        (X.flatten()[:4], Y, 3, "x = 'float32 tensor of shape (4,)'", "of shape (batch, ...)"),
        (X.numpy(), Y, 3, "x = 'ndarray'", "floating-point tensor"),
        (None, Y, 3, "x = 'NoneType'", "floating-point tensor"),
    ],
)  # fmt: skip
def test_bad_tensors_are_refused(x, y, classes, setting, accepted):
    with pytest.raises(ValueError, match="is not accepted; it takes") as error:
        make_batch(x, y, classes)
    assert setting in str(error.value)
    assert accepted in str(error.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("index", torch.arange(3)), ("index", torch.rand(4)), ("index", [0, 1, 2, 3]), ("classes", "3")],
)
def test_bad_extras_are_refused(setting, value):
    with pytest.raises(ValueError, match=f"{setting} = "):
        make_batch(X, Y, **{setting: value})


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=True), min_size=1, max_size=6), st.lists(st.integers(-3, 12), min_size=1))
def test_a_batch_is_made_exactly_of_numbers_in_range(pixels, labels):
    x = torch.tensor(pixels, dtype=torch.float64).expand(len(labels), -1)
    good = all(0 <= p <= 1 for p in pixels) and all(0 <= label < 10 for label in labels)
    refusal = nullcontext() if good else pytest.raises(ValueError, match="is not accepted; it takes")
    with refusal:
        make_batch(x, torch.tensor(labels), classes=10)


@pytest.mark.parametrize("setting", TABLES)
def test_names_are_found_and_other_names_are_refused_with_the_whole_table(setting):
    table = TABLES[setting]
    for name, entry in table.items():
        assert look_up(setting, name, table) is entry
        with pytest.raises(ValueError, match="is not accepted") as error:
            look_up(setting, name.upper() + " ", table)
        assert f"{setting} = {name.upper() + ' '!r} " in str(error.value)
    for wrong in ("", "nothing-like-it", None, 0, ["ce"], True, b"ce"):
        with pytest.raises(ValueError, match="is not accepted") as error:
            look_up(setting, wrong, table)
        assert str(error.value).startswith(f"{setting} = {wrong!r} is not accepted; it takes one of ")
        assert all(name in str(error.value) for name in table)


@pytest.mark.parametrize("setting", TABLES)
def test_a_slip_of_the_finger_is_corrected(setting):
    for name in TABLES[setting]:
        if len(name) > 3:
            with pytest.raises(ValueError, match="is not accepted") as error:
                look_up(setting, name[:-1] + "_", TABLES[setting])
            assert f"(did you mean {name!r}?)" in str(error.value)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, -math.inf, True, "1", None, 1j, [1]], ids=repr)
def test_numbers_that_are_none_are_refused(value):
    with pytest.raises(ValueError, match=r"a = .* is not accepted; it takes a finite number >= 0$"):
        number_at_least("a", value, 0)
    with pytest.raises(ValueError, match=r"a = .* is not accepted; it takes a whole number >= 0$"):
        whole_at_least("a", value, 0)


def test_bounds_belong_or_not():
    assert number_at_least("a", 0, 0) == 0
    assert number_at_least("a", 5e-324, 0, above=True) > 0
    assert whole_at_least("a", 1, 1) == 1
    for refused in (lambda: number_at_least("a", 0, 0, above=True), lambda: whole_at_least("a", 0, 1)):
        with pytest.raises(ValueError, match=r"a = 0 is not accepted; it takes a (finite|whole) number >"):
            refused()


def test_an_integer_no_float_can_hold_is_refused():
    with pytest.raises(ValueError, match="is not accepted"):
        number_at_least("eps", 10**400, 0)


def linear(x):
    return x.flatten(1) @ torch.randn(9, 3, generator=torch.Generator().manual_seed(1), dtype=x.dtype)


@pytest.mark.parametrize("x", [2 * X, but(X, -0.5), but(X, math.nan), X.half() + 1])
@pytest.mark.parametrize("attack", [NoAttack(), PGD(0.1), fast_fgsm(0.1, "l2"), TopFraction(PGD(0.1), Uniform(), 0.5)])
def test_attacks_refuse_pixels_outside_0_1(attack, x):
    with pytest.raises(ValueError, match=r"x = 'values in \[.* it takes values in \[0, 1\]; divide bytes by 255"):
        attack(linear, Batch(x, Y, torch.arange(4)), torch.Generator())


@pytest.mark.parametrize("held_out", [False, True])
def test_steps_refuse_pixels_outside_0_1_whatever_the_attack(held_out):
    def blind(logits_of, batch, generator=None):
        return Adversarial(batch.x, torch.zeros_like(batch.y), steps=0)

    module = nn.Sequential(nn.Flatten(), nn.Linear(9, 3))
    net, optimizer = Net(module), torch.optim.SGD(module.parameters(), lr=0.1)
    good, bad = (Batch(x, Y, torch.arange(4)) for x in (X, 2 * X))
    method = Method(AdversarialCE(), blind, NonParametric())
    with pytest.raises(ValueError, match=r"x = 'values in"):
        bilaw_step(net, optimizer, *((good, bad) if held_out else (bad, good)), method, 0, 0)
    with pytest.raises(ValueError, match=r"x = 'values in"):
        weighted_step(net, optimizer, bad, method, 0, 0)
