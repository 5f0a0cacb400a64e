"""Attacks where theory gives the answer: linear classifiers, single steps, a line."""

import pytest
import torch
from attack_kit import Linear, batch_of, build, cw, seeded
from torch.nn import functional as F

from bilaw.attacks import ATTACKS, NORMS, OBJECTIVES, PGD, STARTS, fast_fgsm, fgsm

EPS = 0.1


def inner(n, *shape, seed=1):
    """Return images so far from 0 and 1 that the box is out of reach."""
    return 0.3 + 0.4 * torch.rand(n, *shape, generator=seeded(seed), dtype=torch.float64)


def unit(direction):
    return direction / direction.flatten(1).norm(dim=1).view(-1, *[1] * (direction.ndim - 1))


def two_class(seed=0):
    f = Linear(2, 12, seed)
    x = inner(6, 3, 2, 2)
    y = torch.tensor([0, 1, 0, 1, 1, 0])
    rise = (f.w[1 - y] - f.w[y]).view_as(x)  # the gradient of z_other - z_y
    return f, x, y, rise


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("objective", ["ce", "cw"])
@pytest.mark.parametrize("seed", range(3))
def test_two_classes_linf(start, objective, seed):
    f, x, y, rise = two_class(seed)
    found = PGD(EPS, "linf", steps=10, start=start, objective=objective)(f, batch_of(x, y), seeded())
    torch.testing.assert_close(found.x, x + EPS * rise.sign(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("objective", ["ce", "cw"])
@pytest.mark.parametrize("seed", range(3))
def test_two_classes_l2(start, objective, seed):
    f, x, y, rise = two_class(seed)
    found = PGD(EPS, "l2", steps=120, start=start, objective=objective)(f, batch_of(x, y), seeded())
    torch.testing.assert_close(found.x, x + EPS * unit(rise), rtol=0, atol=1e-10)


@pytest.mark.parametrize("objective", ["ce", "cw"])
def test_two_classes_l2_in_a_straight_line(objective):
    f, x, y, rise = two_class()
    for steps in range(1, 7):
        found = PGD(EPS, "l2", steps, start="zero", objective=objective)(f, batch_of(x, y))
        torch.testing.assert_close(found.x, x + min(steps / 4, 1) * EPS * unit(rise), rtol=0, atol=1e-14)


@pytest.mark.parametrize("eps", [0.1, 0.4, 1.5])
@pytest.mark.parametrize("objective", ["ce", "cw"])
def test_two_classes_linf_with_the_box_active(objective, eps):
    f, _, y, rise = two_class()
    x = torch.rand(6, 3, 2, 2, generator=seeded(2), dtype=torch.float64)
    x[0], x[1] = 0, 1
    found = PGD(eps, objective=objective)(f, batch_of(x, y), seeded())
    torch.testing.assert_close(found.x, (x + eps * rise.sign()).clamp(0, 1), rtol=0, atol=1e-14)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("norm", NORMS)
def test_every_objective_ends_at_the_worse_of_the_two_ends(norm, objective):
    """With two classes all that logits say is z_1 - z_0, so an optimum lies at one of its two extremes."""
    f, x, _, _ = two_class()
    y = f(x).argmax(1)
    batch = batch_of(x, y)
    rise = (f.w[1 - y] - f.w[y]).view_as(x)
    direction = {"linf": torch.sign, "l2": unit}[norm](rise)
    ends = [x + EPS * direction, x - EPS * direction]
    value_of = OBJECTIVES[objective](f, batch)
    wrong = torch.stack([f(end).argmax(1) != y for end in ends])
    value = torch.stack([value_of(f(end)) for end in ends])
    second = torch.where(wrong[0] == wrong[1], value[1] > value[0], wrong[1])
    best = torch.where(second.view(-1, 1, 1, 1), ends[1], ends[0])
    found = PGD(EPS, norm, steps=120, objective=objective, restarts=20)(f, batch, seeded())
    torch.testing.assert_close(found.x, best, rtol=0, atol=1e-9)


@pytest.mark.parametrize("classes", [3, 5, 10])
@pytest.mark.parametrize("norm", NORMS)
def test_many_classes_reach_the_best_target(norm, classes):
    f = Linear(classes, 8, seed=classes)
    x, y = inner(12, 2, 2, 2), torch.arange(12) % classes
    steps = {"linf": 10, "l2": 80}[norm]
    found = PGD(EPS, norm, steps, objective="cw", restarts=40)(f, batch_of(x, y), seeded())
    torch.testing.assert_close(cw(f(found.x), y), f.best_margin(x, y, EPS, norm), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("eps", [0.1, 0.5, 2.0])
def test_many_classes_reach_the_best_target_in_the_box(eps):
    f = Linear(4, 6, seed=1)
    x = torch.rand(12, 6, generator=seeded(4), dtype=torch.float64)
    y = torch.arange(12) % 4
    found = PGD(eps, objective="cw", restarts=60)(f, batch_of(x, y), seeded())
    torch.testing.assert_close(cw(f(found.x), y), f.best_margin_in_box(x, y, eps), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_beats_the_optimum(name, norm, objective, start):
    f = Linear(4, 6, seed=2)
    x = torch.rand(10, 6, generator=seeded(5), dtype=torch.float64)
    y = torch.arange(10) % 4
    for eps in (0.05, 0.5):
        attack = build(name, eps, norm=norm, objective=objective, start=start, restarts=3)
        reached = cw(f(attack(f, batch_of(x, y), seeded()).x), y)
        assert (reached <= f.best_margin(x, y, eps, norm) + 1e-12).all()
        if norm == "linf":
            assert (reached <= f.best_margin_in_box(x, y, eps) + 1e-12).all()


def mlp(features=6, classes=4):
    drawn = seeded(7)
    a = torch.randn(16, features, generator=drawn, dtype=torch.float64)
    b = torch.randn(classes, 16, generator=drawn, dtype=torch.float64)
    return lambda x: torch.tanh(x.flatten(1) @ a.T) @ b.T


def ce_gradient(f, x, y):
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(-f(x).softmax(1)[range(len(y)), y].log().sum(), x)
    return gradient


def test_fgsm_is_one_signed_step():
    f, y = mlp(), torch.arange(9) % 4
    x = torch.rand(9, 6, generator=seeded(), dtype=torch.float64)
    found = fgsm(0.3)(f, batch_of(x, y))
    expected = (x + 0.3 * ce_gradient(f, x, y).sign()).clamp(0, 1)
    torch.testing.assert_close(found.x, expected, rtol=0, atol=1e-15)
    assert found.steps == 1


def test_fgsm_in_l2_is_one_step_along_the_gradient():
    f, y = mlp(), torch.arange(9) % 4
    x = inner(9, 6)
    found = fgsm(0.2, "l2")(f, batch_of(x, y))
    torch.testing.assert_close(found.x, x + 0.2 * unit(ce_gradient(f, x, y)), rtol=0, atol=1e-14)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("eps", [0, 1e-6, 0.1, 3])
def test_fgsm_is_pgd_of_one_step(eps, norm, objective):
    f, batch = mlp(), batch_of(inner(9, 6), torch.arange(9) % 4)
    one = PGD(eps, norm, steps=1, step_size=eps or 1.0, start="zero", objective=objective)(f, batch)
    other = fgsm(eps, norm, objective)(f, batch)
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.survived, other.survived)


@pytest.mark.parametrize("norm", NORMS)
def test_fast_fgsm_is_a_uniform_start_and_one_step_of_five_quarters(norm):
    f, batch = mlp(), batch_of(inner(9, 6), torch.arange(9) % 4)
    found = fast_fgsm(EPS, norm)(f, batch, seeded(3))
    begun = NORMS[norm](batch.x, EPS).draw(seeded(3))
    direction = {"linf": torch.sign, "l2": unit}[norm](ce_gradient(f, begun, batch.y))
    moved = begun + 1.25 * EPS * direction - batch.x
    shortened = moved * (EPS / moved.norm(dim=1, keepdim=True)).clamp_max(1)
    moved = moved.clamp(-EPS, EPS) if norm == "linf" else shortened
    torch.testing.assert_close(found.x, batch.x + moved, rtol=0, atol=1e-14)


def test_fast_fgsm_leaves_three_eighths_of_the_coordinates_inside():
    """A start u in [-eps, eps] ends at min(eps, u + 1.25 eps): at eps with chance 5/8, else above eps / 4."""
    f = Linear(2, 4000)
    x = torch.full((2, 4000), 0.5, dtype=torch.float64)
    y = torch.tensor([0, 1])
    found = fast_fgsm(EPS, objective="cw")(f, batch_of(x, y), seeded(11))  # not the seed of f
    along = (found.x - x) * (f.w[1 - y] - f.w[y]).sign() / EPS
    assert (along >= 0.25 - 1e-12).all()
    assert abs((along > 1 - 1e-12).double().mean().item() - 5 / 8) < 4 * (15 / 64 / 8000) ** 0.5
    inside = along[along <= 1 - 1e-12].sort().values  # uniform on [1/4, 1]
    expected = 0.25 + 0.75 * (torch.arange(len(inside)) + 0.5) / len(inside)
    assert (inside - expected).abs().max() < 0.75 * 1.95 / len(inside) ** 0.5


@pytest.mark.parametrize("steps", [1, 4, 6])
def test_survived_counts_the_iterates_before_each_update(steps):
    """Walking from 0.5 in tenths, the iterates looked at are 0.5, 0.6, ...: kappa is how many stay at or below t."""
    wall = torch.tensor([0.45, 0.55, 0.65, 0.75, 0.85, 2.0], dtype=torch.float64)
    x = torch.full((6, 1), 0.5, dtype=torch.float64)

    def f(x):  # class 0 as long as x <= wall
        return torch.cat([torch.zeros_like(x), 10 * (x - wall[:, None])], dim=1)

    found = PGD(0.45, steps=steps, step_size=0.1, start="zero")(f, batch_of(x, [0] * 6))
    assert found.survived.tolist() == [min(steps, kappa) for kappa in (0, 1, 2, 3, 4, steps)]
    assert found.survived.dtype == torch.int64
    assert found.steps == steps


def test_kl_has_no_gradient_at_x_itself_but_has_at_the_gaussian_start():
    f, batch = mlp(), batch_of(inner(9, 6), torch.arange(9) % 4)

    def gradient(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(OBJECTIVES["kl"](f, batch)(f(x)).sum(), x)[0].norm(dim=1)

    begun = STARTS["gaussian"](NORMS["linf"](batch.x, EPS), batch.x, seeded())
    assert (gradient(batch.x) < 1e-14).all()
    assert (gradient(begun) > 1e-5).all()


def test_kl_attack_raises_the_divergence_from_the_clean_prediction():
    f, batch = mlp(), batch_of(inner(9, 6), torch.arange(9) % 4)
    found = PGD(EPS, objective="kl", start="gaussian")(f, batch, seeded())
    p, q = f(batch.x).softmax(1), f(found.x).softmax(1)
    value = (p * (p / q).log()).sum(1)
    corners = torch.stack([OBJECTIVES["kl"](f, batch)(f(batch.x + s * EPS)) for s in (-1, 1)]).amax(0)
    assert (value >= corners).all()
    torch.testing.assert_close(value, OBJECTIVES["kl"](f, batch)(f(found.x)))


def test_objectives_by_hand():
    logits = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, 1.0]], dtype=torch.float64)
    clean = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]], dtype=torch.float64)
    batch = batch_of(clean, [0, 2])
    p, q = clean.softmax(1), logits.softmax(1)
    expected = {
        "ce": torch.stack([-q[0, 0].log(), -q[1, 2].log()]),
        "kl": (p * (p.log() - q.log())).sum(1),
        "cw": torch.tensor([0.5 - 2.0, 3.0 - 1.0], dtype=torch.float64),
    }
    for name, objective in OBJECTIVES.items():
        torch.testing.assert_close(objective(lambda x: x, batch)(logits), expected[name])
    torch.testing.assert_close(expected["ce"], F.cross_entropy(logits, batch.y, reduction="none"))
