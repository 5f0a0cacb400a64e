"""What no attack may ever do, whatever the shapes, settings, logits and failures."""

import copy

import pytest
import torch
from attack_kit import (
    HALVES,
    assert_inside,
    assert_same_state,
    batch_of,
    build,
    draws,
    images,
    net,
    seeded,
    state_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bilaw.attacks import ATTACKS, NORMS, OBJECTIVES, PGD, STARTS, TopFraction
from bilaw.weighting import Uniform

DTYPES = [torch.float32, torch.float64, *HALVES]
SHAPES = st.one_of(
    st.tuples(st.integers(1, 4), st.integers(1, 7)),
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)),
)
EPS = st.one_of(st.sampled_from([0, 0.0, 1e-30, 1e-8, 8 / 255, 0.3, 1, 1.5, 40.0, 1e5]), st.floats(0, 1.2))
STEP_SIZES = st.one_of(st.none(), st.floats(1e-6, 3))


def surface(kind, classes, seed):
    """Return logits of one kind, none of them easy on an attack but the first."""

    def linear(x):
        w = torch.randn(classes, x[0].numel(), generator=seeded(seed), dtype=torch.float64).to(x.dtype)
        return x.flatten(1) @ w.T

    def first_sample(bad):
        return lambda x: linear(x) * torch.ones(len(x), 1, dtype=x.dtype).index_fill(0, torch.tensor([0]), bad)

    return {
        "linear": linear,
        "flat": lambda x: linear(x) * 0 + torch.arange(classes).to(x.dtype),
        "saturated": lambda x: linear(x) * 1e4,
        "faint": lambda x: linear(x) * 1e-30,
        "all-nan": lambda x: linear(x) * torch.nan,
        "one-nan": first_sample(torch.nan),
        "one-inf": first_sample(torch.inf),
        "nan-on-the-way": lambda x: torch.where(x.flatten(1)[:, :1] > 0.5, torch.nan, linear(x)),
        "steep-root": lambda x: linear((x - 0.5).clamp_min(0).sqrt()),  # infinite derivative at 0.5
    }[kind]


KINDS = [
    "linear", "flat", "saturated", "faint", "all-nan", "one-nan", "one-inf", "nan-on-the-way", "steep-root",
]  # fmt: skip


def points(shape, dtype, seed):
    """Return images with some pixels at exactly 0, 1/2 and 1."""
    x = torch.rand(shape, generator=seeded(seed), dtype=torch.float64)
    special = torch.randint(8, shape, generator=seeded(seed))
    for place, value in enumerate((0, 0.5, 1)):
        x[special == place] = value
    return x.to(dtype)


@settings(deadline=None, max_examples=250)
@given(st.data())
def test_points_stay_in_the_ball_and_in_the_box(data):
    shape, dtype = data.draw(SHAPES), data.draw(st.sampled_from(DTYPES))
    classes, seed = data.draw(st.integers(2, 5)), data.draw(st.integers(0, 999))
    norm, eps = data.draw(st.sampled_from(sorted(NORMS))), data.draw(EPS)
    steps, restarts = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    start = data.draw(st.sampled_from(sorted(STARTS)))
    objective = data.draw(st.sampled_from(sorted(OBJECTIVES)))
    f = surface(data.draw(st.sampled_from(KINDS)), classes, seed)
    batch = batch_of(points(shape, dtype, seed), torch.arange(shape[0]) % classes)
    before = batch.x.clone()
    attack = PGD(eps, norm, steps, data.draw(STEP_SIZES), start, objective, restarts)
    found = attack(f, batch, seeded(seed))
    assert_inside(found.x, batch.x, eps, norm)
    assert torch.equal(batch.x, before)
    assert found.steps == steps
    assert found.survived.dtype == torch.int64
    assert found.survived.shape == batch.y.shape
    assert ((found.survived >= 0) & (found.survived <= steps)).all()
    assert found.attacked is None


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("eps", [8 / 255, 0.5])
def test_half_precision_is_inside_and_still_uses_the_ball(norm, dtype, eps):
    x = points((16, 3, 8, 8), dtype, 1)
    found = PGD(eps, norm)(surface("linear", 3, 1), batch_of(x, torch.arange(16) % 3), seeded())
    assert_inside(found.x, x, eps, norm)
    assert (NORMS[norm].size(found.x.double() - x.double()) > 0.7 * eps).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_stays_inside(name, norm, kind):
    x = points((3, 2, 3, 3), torch.float32, 4)
    f = surface(kind, 3, 1)
    for eps in (0, 8 / 255, 0.7):
        found = build(name, eps, norm=norm)(f, batch_of(x, [0, 1, 2]), seeded())
        assert_inside(found.x, x, eps, norm)
        assert not found.x.requires_grad


@pytest.mark.parametrize("eps", [0, 1e-5, 0.1, 2.0])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("start", STARTS)
def test_starts_are_inside_already(start, norm, eps):
    x = points((6, 3, 4, 4), torch.float32, 0)
    assert_inside(STARTS[start](NORMS[norm](x, eps), x, seeded()), x, eps, norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("start", STARTS)
def test_without_a_gradient_the_point_stays_where_it_started(start, norm):
    x = 0.3 + 0.4 * torch.rand(4, 9, generator=seeded(), dtype=torch.float64)
    found = PGD(0.1, norm, start=start)(surface("flat", 3, 0), batch_of(x, [0, 1, 2, 0]), seeded(1))
    begun = STARTS[start](NORMS[norm](x, 0.1), x, seeded(1))
    torch.testing.assert_close(found.x, begun, rtol=0, atol=1e-15)


@pytest.mark.parametrize("norm", NORMS)
def test_one_sample_without_numbers_costs_the_others_nothing(norm):
    x = 0.3 + 0.4 * torch.rand(4, 9, generator=seeded(), dtype=torch.float64)
    batch = batch_of(x, [0, 1, 2, 0])
    sound = PGD(0.1, norm)(surface("linear", 3, 0), batch, seeded(1))
    broken = PGD(0.1, norm)(surface("one-nan", 3, 0), batch, seeded(1))
    assert torch.equal(broken.x[1:], sound.x[1:])
    assert torch.equal(broken.survived[1:], sound.survived[1:])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_very_small_gradients_are_climbed_in_full(norm, dtype):
    x = torch.full((3, 5), 0.5, dtype=dtype)
    batch = batch_of(x, [0, 1, 2])
    linear, faint = surface("linear", 3, 0), surface("faint", 3, 0)
    attack = PGD(0.25, norm, steps=1, step_size=0.1, start="zero", objective="cw")  # the ball does not shorten it
    size = NORMS[norm].size(attack(faint, batch).x - x)
    torch.testing.assert_close(size, torch.full_like(size, 0.1), rtol=1e-5, atol=0)
    torch.testing.assert_close(attack(faint, batch).x, attack(linear, batch).x, rtol=1e-5, atol=0)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(NORMS)), st.integers(0, 99))
def test_samples_are_attacked_each_on_its_own(norm, seed):
    batch = batch_of(points((5, 6), torch.float64, seed), torch.arange(5) % 3)
    attack = PGD(0.2, norm, start="zero")
    f = surface("linear", 3, seed)
    order = torch.randperm(5, generator=seeded(seed))
    found, shuffled = attack(f, batch), attack(f, batch_of(batch.x[order], batch.y[order]))
    torch.testing.assert_close(shuffled.x, found.x[order], rtol=0, atol=1e-12)
    assert torch.equal(shuffled.survived, found.survived[order])


def every_attack():
    """Return the attacks of the table and, on top of one, `TopFraction`."""
    attacks = {name: build(name, 0.1, restarts=2, objective="kl") for name in ATTACKS}
    return {**attacks, "top-fraction": TopFraction(PGD(0.1), Uniform(), 0.5)}


@pytest.mark.parametrize("name", every_attack())
def test_an_attack_leaves_no_trace(name):
    model, batch = net(), images()
    before = state_of(model)
    every_attack()[name](model, batch, seeded())
    assert_same_state(before, state_of(model))


@pytest.mark.parametrize("name", sorted(every_attack().keys() - {"none"}))
def test_an_attack_leaves_no_trace_when_the_model_raises(name):
    for call in (1, 2):
        model, batch = net(fail_at=call), images()
        before = state_of(model)
        attack = every_attack()[name]
        try:
            attack(model, batch, seeded())
        except ArithmeticError:
            assert_same_state(before, state_of(model))
        else:
            pytest.fail("the model was not called")


@pytest.mark.parametrize("name", every_attack())
def test_the_generator_advances_and_the_callers_random_numbers_do_not(name):
    model, batch, generator = net(), images(), seeded()
    attack = every_attack()[name]
    torch_state = torch.get_rng_state()
    first, second = attack(model, batch, generator), attack(model, batch, generator)
    assert torch.equal(torch_state, torch.get_rng_state())
    again = attack(model, batch, seeded())
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.survived, again.survived)
    # Several: from two starts APGD may well end in the same corner of the ball.
    others = [second, *(attack(model, batch, generator) for _ in range(3))]
    assert all(torch.equal(first.x, other.x) for other in others) is not draws(name, attack)


@pytest.mark.parametrize("name", every_attack())
@pytest.mark.parametrize("grad_mode", [True, False])
def test_a_train_mode_module_is_attacked_in_eval_mode(name, grad_mode):
    mixed, batch = net(), images()
    with torch.set_grad_enabled(grad_mode):
        points = [
            every_attack()[name](model, batch, seeded())
            for model in (mixed, copy.deepcopy(mixed).train(), copy.deepcopy(mixed).eval())
        ]
        assert torch.is_grad_enabled() is grad_mode
    for other in points[1:]:
        assert torch.equal(points[0].x, other.x)
        assert torch.equal(points[0].survived, other.survived)


class Untouchable(torch.autograd.Function):
    """x W^T, whose backward refuses to differentiate with respect to W."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x @ w.T

    @staticmethod
    def backward(ctx, gradient):
        assert not ctx.needs_input_grad[1], "a parameter gradient was asked for"
        return gradient @ ctx.saved_tensors[0], None


class Guarded(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 32, generator=seeded()))
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return Untouchable.apply(x.flatten(1), self.w) + self.bias


def alarm(*_):
    pytest.fail("a gradient reached a parameter")


@pytest.mark.parametrize("name", every_attack())
def test_no_parameter_gradient_is_computed(name):
    model = Guarded()
    for p in model.parameters():
        p.register_hook(alarm)
        p.register_post_accumulate_grad_hook(alarm)
    every_attack()[name](model, images(), seeded())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", every_attack())
def test_no_gradient_reaches_the_parameters_behind_a_function(name):
    model = net().eval()
    model.zero_grad()
    for p in model.parameters():
        if p.requires_grad:
            p.register_hook(alarm)
            p.register_post_accumulate_grad_hook(alarm)
    found = every_attack()[name](lambda x: model(x), images(), seeded())
    assert all(p.grad is None for p in model.parameters())
    assert not found.x.requires_grad


class Counting(nn.Module):
    """A module with a buffer that moves in eval mode, too."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layer(x.flatten(1))


def test_buffers_that_move_in_eval_mode_are_left_as_they_were():
    model = Counting()
    PGD(0.1)(model, images(), seeded())
    assert model.calls == 0


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_points_are_constants_even_when_x_requires_grad(name):
    batch = images()
    batch.x.requires_grad_()
    found = build(name, 0.1)(net(), batch, seeded())
    assert not found.x.requires_grad
