"""How AutoAttack goes about it: which passes it makes, whom it lets go, how APGD climbs and halves its step."""

import pytest
import torch
from attack_kit import Linear, batch_of, build, seeded
from torch.nn import functional as F

from bilaw.attacks.autoattack import APGD, FAB, STANDARD, Square, apgd, fab, square

NEAR, FAR, NO_WALL = 0.0, 0.5, 1.0
WALLS = {NEAR: 0.04, FAR: 0.25, NO_WALL: 9.0}


class Walls:
    """Classes 0 and 1 on points (u, v): class 1 begins where u has passed a wall; v, rounded, says which wall.

    Further classes are never ahead. Without a wall there is no slope either. The kinds of the rows of each call are
    kept: of the forward passes, and of the backward passes.
    """

    def __init__(self, classes=2):
        self.classes, self.forward, self.backward = classes, [], []

    def __call__(self, x):
        kinds = (2 * x[:, 1].detach()).round() / 2
        self.forward.append(kinds.tolist())
        wall = 0.5 + torch.tensor([WALLS[kind] for kind in kinds.tolist()], dtype=x.dtype)
        rise = torch.where(kinds == NO_WALL, -1 + 0 * x[:, 0], x[:, 0] - wall)
        if rise.requires_grad:
            rise.register_hook(lambda gradient: self.backward.append(kinds.tolist()))
        rest = torch.full((len(x), self.classes - 2), -2, dtype=x.dtype)
        return torch.cat([torch.zeros_like(rise)[:, None], rise[:, None], rest], dim=1)

    @property
    def rows(self):
        """Return how many rows went forward, call by call."""
        return [len(kinds) for kinds in self.forward]


def points(*kinds):
    """Return samples of class 0 at u = 0.5."""
    v = torch.tensor(kinds, dtype=torch.float64)
    return batch_of(torch.stack([torch.full_like(v, 0.5), v], dim=1), [0] * len(kinds))


@pytest.mark.parametrize(("classes", "asked", "targets"), [(2, 9, 1), (3, 9, 2), (4, 2, 2), (10, 9, 9), (12, 9, 9)])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_unbroken_batch_costs_what_the_paper_says(norm, classes, asked, targets):
    batch = points(*[NO_WALL] * 4)
    for attack, calls in [
        (APGD(0.01, norm, "ce", steps=7), 1 + (1 + 7)),
        (APGD(0.01, norm, "dlr", steps=7, restarts=2), 1 + 2 * (1 + 7)),
        (APGD(0.01, norm, "targeted-dlr", steps=7, targets=asked), 1 + targets * (1 + 7)),
        (FAB(0.01, norm, steps=7, targets=asked), 1 + targets * (1 + 7)),  # nobody crosses: one look a step
        (Square(0.01, norm, queries=17), 1 + 17),
    ]:
        f = Walls(classes)
        found = attack(f, batch, seeded())
        assert f.rows == [4] * calls
        assert len(f.backward) <= calls - 1
        assert (f(found.x).argmax(1) == 0).all()
        assert (found.steps, found.survived.tolist(), found.attacked) == (0, [0] * 4, None)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_fab_looks_again_from_where_it_drew_samples_back_to(norm):
    f = Walls()
    FAB(0.01, norm, steps=6)(f, points(FAR, FAR), seeded())
    assert f.rows == [2, 2] + [2, 2] * 5 + [2]
    f = Walls()
    FAB(0.01, norm, steps=6)(f, points(FAR, NO_WALL, NO_WALL, NO_WALL), seeded())
    assert f.rows == [4, 4] + [4, 1] * 5 + [4]


@pytest.mark.parametrize("kinds", [(FAR, FAR), (FAR, NO_WALL, NO_WALL, NO_WALL), (NO_WALL,)], ids=str)
@pytest.mark.parametrize("name", STANDARD)
def test_no_sample_costs_more_passes_than_announced(name, kinds):
    attack, f = build(name, 0.01, steps=7, queries=20, targets=1), Walls()
    attack(f, points(*kinds), seeded())
    for kind in set(kinds):
        forward, backward = (sum(call.count(kind) for call in calls) for calls in (f.forward, f.backward))
        assert (forward + 2 * backward) / kinds.count(kind) <= attack.passes


@pytest.mark.parametrize(
    ("attack", "before"),
    [
        (APGD(0.1, steps=30), 1 + 1 + 5),  # the first look at who is broken comes after five steps
        (APGD(0.1, loss="dlr", steps=30), 1 + 1 + 5),
        (Square(0.1, queries=30), 1 + 1 + 10),
    ],
)
def test_broken_samples_leave_at_the_next_look(attack, before):
    f = Walls()
    found = attack(f, points(NEAR, NO_WALL, NO_WALL), seeded())
    assert f.rows == [3] * before + [2] * (len(f.rows) - before)
    assert len(f.rows) == {APGD: 1 + 1 + 30, Square: 1 + 30}[type(attack)]
    assert (Walls()(found.x).argmax(1) == 1).tolist() == [True, False, False]


def test_broken_samples_leave_fab_at_the_next_look():
    f = Walls(classes=3)
    FAB(0.1, steps=20, targets=2)(f, points(NEAR, NO_WALL, NO_WALL), seeded())
    assert f.rows == [3] * (1 + 1 + 5) + [2] * (15 + 1 + 20)


@pytest.mark.parametrize("name", STANDARD)
def test_an_attack_ends_when_everybody_is_broken(name):
    f = Walls()
    build(name, 0.1, steps=500, queries=5000)(f, points(NEAR, NEAR), seeded())
    assert len(f.rows) <= 1 + 1 + 2 * 10


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", STANDARD)
def test_samples_that_are_misclassified_already_are_left_alone(name, norm):
    f, batch = Walls(), points(NO_WALL, NO_WALL, NO_WALL)
    found = build(name, 0.1, norm=norm)(f, batch._replace(y=torch.tensor([1, 1, 1])), seeded())
    assert f.rows == [3]
    assert torch.equal(found.x, batch.x)
    f = Walls()
    found = build(name, 0.1, norm=norm)(f, batch._replace(y=torch.tensor([1, 0, 1])), seeded())
    assert f.rows == [3] + [1] * (len(f.rows) - 1)
    assert torch.equal(found.x[[0, 2]], batch.x[[0, 2]])


def problem(classes=3, n=60, *, norm="linf", shape=(1, 3, 4)):
    """Return a smooth classifier, and samples that 2 in 3 of are somewhere near a boundary."""
    a, b = Linear(16, 12, seed=1), Linear(classes, 16, seed=2)
    x = torch.rand(n, *shape, generator=seeded(4), dtype=torch.float64)

    def f(x):
        return b(torch.tanh(a(x - 0.5)))

    return f, batch_of(x, f(x).argmax(1)), {"linf": 0.05, "l2": 0.15}[norm]


@pytest.mark.parametrize(
    ("name", "norm"),  # of Square in l2, signs are drawn for the samples that are left
    [(name, norm) for name in STANDARD for norm in ("linf", "l2") if (name, norm) != ("square", "l2")],
)
def test_when_samples_leave_changes_no_verdict(monkeypatch, name, norm):
    f, batch, eps = problem(norm=norm)
    attack, verdicts = build(name, eps, norm=norm, steps=20, queries=200), []
    for every in (1, 3, 10**9):
        for module in (apgd, fab, square):
            monkeypatch.setattr(module, "EVERY", every)
        verdicts.append(f(attack(f, batch, seeded()).x).argmax(1) != batch.y)
    assert 10 < verdicts[0].sum() < 50
    assert torch.equal(verdicts[0], verdicts[1])
    assert torch.equal(verdicts[0], verdicts[2])


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", ["apgd-t", "fab-t"])
def test_a_sample_alone_meets_the_same_fate(name, norm):
    f, batch, eps = problem(n=20, norm=norm)
    attack = build(name, eps, norm=norm, steps=30)
    pairs = zip(batch.x, batch.y, strict=True)
    together = f(attack(f, batch, seeded()).x).argmax(1) != batch.y
    alone = [f(attack(f, batch_of(x[None], y[None]), seeded()).x).argmax(1).ne(y).item() for x, y in pairs]
    assert 0 < sum(alone) < 20
    assert together.tolist() == alone


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", STANDARD)
def test_a_gradient_that_is_no_number_does_not_carry_a_sample_out(name, norm):
    def f(x):  # infinite slope at 0.5, no number below
        root = (x - 0.5).clamp_min(0).sqrt() * torch.tensor([1.0, torch.nan, 1.0], dtype=x.dtype)[: len(x), None]
        return torch.cat([1 + 0 * x[:, :1], root[:, :1] + 0.1 * x[:, 1:]], dim=1)

    x = torch.full((1, 2), 0.5, dtype=torch.float64)
    found = build(name, 0.1, norm=norm)(f, batch_of(x, [0]), seeded())
    assert found.x.isfinite().all()
    assert (found.x - x).abs().max() <= 0.1 + 1e-12


def test_a_step_of_fab_is_drawn_to_x_by_a_tenth_at_most():
    """At 0.9, beyond a boundary at 0.6: nine tenths of 0.9 - 1.05 * 0.3, and one of 0.5 + 1.05 * 0.1."""
    x, x_adv, lead = (torch.tensor([[u]], dtype=torch.float64) for u in (0.5, 0.9, 0.3))
    zero = torch.zeros(1, dtype=torch.int64)
    at = fab.Seekers(zero, x, zero, zero, x_adv=x_adv, lead=lead[0], gradient=x / x, done=zero > 0, found=x)
    for norm in ("linf", "l2"):
        at.x_adv = x_adv
        at.advance(norm)
        assert at.x_adv.item() == pytest.approx(0.9 * 0.585 + 0.1 * 0.605)


# APGD's climb


def losses(f, found, batch):
    return F.cross_entropy(f(found.x), batch.y, reduction="none")


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_more_steps_never_lower_the_best_loss(monkeypatch, norm):
    monkeypatch.setattr(apgd, "_checkpoints", lambda steps: {4: 5, 7: 3, 9: 2, 11: 2})  # whatever the steps
    f, batch, _ = problem(norm=norm)
    reached = []
    for steps in range(1, 16):
        found = APGD(0.01, norm, steps=steps)(f, batch, seeded(2))
        reached.append(losses(f, found, batch))
        unbroken = f(found.x).argmax(1) == batch.y
    assert unbroken.sum() > 40
    rises = torch.stack(reached)[:, unbroken].diff(dim=0)
    assert (rises >= 0).all()
    assert (rises > 0).any(dim=1).sum() > 3


def climbers(**known):
    """Return the state of a climb of as many samples as there are numbers."""
    n = len(known["rises"])
    nothing, x = torch.zeros(n, dtype=torch.float64), torch.zeros(n, 1, dtype=torch.float64)
    base = dict.fromkeys(("loss", "step", "best_loss", "loss_then"), nothing)
    base |= dict.fromkeys(("x", "x_adv", "x_old", "gradient", "best_x", "best_gradient", "wrong_x"), x)
    base |= dict.fromkeys(("place", "y", "target"), torch.zeros(n, dtype=torch.int64))
    base |= {"halved": nothing > 0, "wrong": nothing > 0}
    return apgd.Climbers(**{name: value.clone() for name, value in {**base, **known}.items()})  # each its own memory


def test_the_step_is_halved_on_the_papers_two_conditions():
    """Of 20 steps 15 have to rise above the last loss, and more; else an old step has to have brought a new best."""
    at = climbers(
        rises=torch.tensor([15, 16, 20, 16, 0]),
        halved=torch.tensor([False, False, False, True, True]),
        loss_then=torch.tensor([1.0, 1.0, 2.0, 2.0, 1.0]),
        best_loss=torch.tensor([2.0, 2.0, 2.0, 2.0, 2.0]),
        step=torch.full((5,), 0.8),
        x_adv=torch.full((5, 1), 0.3),
        best_x=torch.full((5, 1), 0.7),
        gradient=torch.full((5, 1), -1.0),
        best_gradient=torch.full((5, 1), 1.0),
    )
    at.adapt(20)
    assert at.halved.tolist() == [True, False, True, False, True]
    assert at.step.tolist() == pytest.approx([0.4, 0.8, 0.4, 0.8, 0.4])
    assert at.x_adv[:, 0].tolist() == pytest.approx([0.7, 0.3, 0.7, 0.3, 0.7])
    assert at.gradient[:, 0].tolist() == [1, -1, 1, -1, 1]
    assert not at.rises.any()
    assert at.loss_then.tolist() == [2] * 5


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_loss_with_a_crest_inside_the_ball_is_closed_in_on(norm):
    """From one side of the crest to the other a full step only oscillates: the halvings are what brings it near."""
    crest = torch.tensor([0.47, 0.53, 0.61], dtype=torch.float64)

    def f(x):
        return torch.cat([-5 - 0 * x, -6 - (x - crest[:, None]).abs()], dim=1)

    batch = batch_of(torch.full((3, 1), 0.5, dtype=torch.float64), [0, 0, 0])
    found = APGD(0.2, norm, steps=100)(f, batch, seeded())
    assert (found.x[:, 0] - crest).abs().max() < 2 * 0.2 / 2**6


def test_the_best_point_is_kept_with_its_gradient():
    at = climbers(rises=torch.tensor([0]), loss=torch.tensor([-9.0]), best_loss=torch.tensor([-9.0]))
    for u in (0.2, 0.9, 0.5):
        at.x_adv = torch.tensor([[u]], dtype=torch.float64)
        at.look(lambda x: torch.cat([0 * x, x**2], dim=1), lambda logits, y, target: logits[:, 1])
    assert (at.best_x.item(), at.best_loss.item(), at.best_gradient.item()) == pytest.approx((0.9, 0.81, 1.8))
    assert (at.loss.item(), at.gradient.item(), at.rises.item()) == pytest.approx((0.25, 1.0, 2))


def test_a_climb_starts_on_the_surface_and_moves_two_radii_first(monkeypatch):
    begun, move = [], apgd.Climbers.move
    monkeypatch.setattr(
        apgd.Climbers, "move", lambda self, *rest: (begun.append(self.keep(self.place)), move(self, *rest))
    )
    x = torch.full((50, 6), 0.5, dtype=torch.float64)
    for norm, p in (("linf", torch.inf), ("l2", 2)):
        APGD(0.1, norm, steps=1)(lambda x: x[:, :2] * 0, batch_of(x, [0] * 50), seeded())
        away = begun[-1].x_adv - x
        torch.testing.assert_close(away.norm(p=p, dim=1), torch.full((50,), 0.1, dtype=torch.float64))
        assert len(away.unique(dim=0)) == 50
        assert begun[-1].step.tolist() == [0.2] * 50
