"""Starts, restarts, the weight-aware adversary, the attack on the heaviest, and what is refused."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from attack_kit import batch_of, build, cw, draws, images, net, seeded
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.attacks import ATTACKS, NORMS, OBJECTIVES, PGD, STARTS, NoAttack, TopFraction, fgsm, weight_aware_pgd
from bilaw.losses import LOSSES
from bilaw.types import Adversarial, Attack, Batch
from bilaw.weighting import FEATURES, Gairat, Mail, Omega, Uniform, WeightNet, Wmmr


def middle(*shape):
    return torch.full(shape, 0.5, dtype=torch.float64)


def flat(x):
    """Return logits without a gradient, so that an attack ends where it starts."""
    return x.flatten(1).sum(1, keepdim=True) * torch.zeros(3, dtype=x.dtype)


def mlp(features=6, classes=4, seed=7):
    drawn = seeded(seed)
    a = 3 * torch.randn(16, features, generator=drawn, dtype=torch.float64)
    b = torch.randn(classes, 16, generator=drawn, dtype=torch.float64)
    return lambda x: torch.tanh(x.flatten(1) @ a.T) @ b.T


def unit_interval_distance(sample):
    """Return the Kolmogorov-Smirnov distance of a sample from the uniform law on [0, 1], times sqrt(n)."""
    sample = sample.flatten().sort().values
    steps = torch.arange(len(sample) + 1) / len(sample)
    return torch.maximum(steps[1:] - sample, sample - steps[:-1]).max().item() * len(sample) ** 0.5


LIMIT = 1.95  # exceeded by chance once in a thousand seeds


def started(start, norm, *shape, eps=0.1, seed=0):
    """Return perturbations over eps."""
    x = middle(*shape)
    return (PGD(eps, norm, steps=1, start=start)(flat, batch_of(x, [0] * len(x)), seeded(seed)).x - x) / eps


@pytest.mark.parametrize("shape", [(4000, 1), (4000, 3), (1500, 2, 3, 2)])
def test_uniform_start_in_l2_fills_the_ball(shape):
    d = math.prod(shape[1:])
    begun = started("uniform", "l2", *shape).flatten(1)
    radius = begun.norm(dim=1)
    assert radius.max() <= 1 + 1e-12
    assert unit_interval_distance(radius**d) < LIMIT  # the volume within radius r goes as r^d
    direction = begun / radius[:, None]
    spread = 4 * (begun**2 - 1 / (d + 2)).std(0) / len(begun) ** 0.5
    assert ((begun**2).mean(0) - 1 / (d + 2)).abs().le(spread).all()
    assert direction.mean(0).norm() < 4 / len(begun) ** 0.5
    if d > 1:
        assert abs(torch.corrcoef(torch.stack([radius, direction[:, 0]]))[0, 1]) < 4 / len(begun) ** 0.5


@pytest.mark.parametrize("shape", [(4000, 1), (2000, 4), (500, 2, 2, 2)])
def test_uniform_start_in_linf_fills_the_cube(shape):
    begun = started("uniform", "linf", *shape).flatten(1)
    for coordinate in begun.T:
        assert unit_interval_distance((coordinate + 1) / 2) < LIMIT
    if begun.shape[1] > 1:
        assert abs(torch.corrcoef(begun.T)[0, 1]) < 4 / len(begun) ** 0.5


@pytest.mark.parametrize("norm", NORMS)
def test_gaussian_start_has_the_width_of_trades(norm):
    begun = started("gaussian", norm, 500, 8, eps=1.0)
    normal = 0.5 * (1 + torch.erf(begun / 0.001 / 2**0.5))
    assert unit_interval_distance(normal) < LIMIT
    small = started("gaussian", norm, 500, 8, eps=1e-4)
    assert NORMS[norm].size(small).max() <= 1 + 1e-9


@pytest.mark.parametrize("norm", NORMS)
def test_zero_start_is_x(norm):
    assert not started("zero", norm, 3, 2, 2, 2).any()


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("norm", NORMS)
def test_samples_start_each_at_its_own_point(norm, start):
    begun = started(start, norm, 6, 5)
    distinct = len(begun.unique(dim=0))
    assert distinct == (1 if start == "zero" else 6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ATTACKS)
def test_equal_seeds_give_equal_points(name, norm):
    attack, batch = build(name, 0.1, norm=norm, restarts=2, steps=2), images()
    one, same, other = (attack(net(), batch, seeded(seed)) for seed in (5, 5, 6))
    assert torch.equal(one.x, same.x)
    assert torch.equal(one.survived, same.survived)
    if (name, norm) == ("apgd-ce", "linf"):  # from wherever it starts, its first step of 2 eps ends in the same corner
        one, other = (attack(flat, batch, seeded(seed)) for seed in (5, 6))
    assert torch.equal(one.x, other.x) is not draws(name, attack)


def test_without_a_generator_the_global_one_is_drawn_from():
    batch = images()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        found = PGD(0.1)(net(), batch)
    assert torch.equal(found.x, PGD(0.1)(net(), batch, seeded(5)).x)


@pytest.mark.parametrize("attack", [NoAttack(), PGD(0.1), fgsm(0.1), TopFraction(PGD(0.1), Uniform())])
def test_attacks_keep_the_protocol(attack):
    assert isinstance(attack, Attack)
    found = attack(net(), images(), seeded())
    assert isinstance(found, Adversarial)
    assert found.survived.dtype == torch.int64
    assert found.survived.shape == (4,)


def test_no_attack_returns_the_batch():
    batch = images()
    found = NoAttack()(net(), batch)
    assert torch.equal(found.x, batch.x)
    assert (found.steps, found.survived.tolist(), found.attacked) == (0, [0] * 4, None)


# Restarts


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(sorted(NORMS)),
    st.sampled_from(sorted(OBJECTIVES)),
    st.floats(0.01, 0.6),
    st.integers(2, 5),
    st.integers(0, 999),
)
def test_restarts_keep_the_worst_of_the_single_runs(norm, objective, eps, restarts, seed):
    f, batch = mlp(), batch_of(torch.rand(8, 6, generator=seeded(seed), dtype=torch.float64), torch.arange(8) % 4)
    generator = seeded(seed)
    runs = [PGD(eps, norm, 3, objective=objective)(f, batch, generator) for _ in range(restarts)]
    found = PGD(eps, norm, 3, objective=objective, restarts=restarts)(f, batch, seeded(seed))
    value_of = OBJECTIVES[objective](f, batch)

    def badness(run):
        logits = f(run.x)
        return list(zip((logits.argmax(1) != batch.y).tolist(), value_of(logits).tolist(), strict=True))

    singles = [badness(run) for run in runs]
    for i, reached in enumerate(badness(found)):
        best = max(range(restarts), key=lambda r: singles[r][i])
        assert reached == singles[best][i]
        same = [r for r in range(restarts) if torch.equal(runs[r].x[i], found.x[i])]
        assert best in same
        assert found.survived[i] in [runs[r].survived[i] for r in same]


def test_more_restarts_never_end_lower():
    f, batch = mlp(), batch_of(torch.rand(20, 6, generator=seeded(), dtype=torch.float64), torch.arange(20) % 4)
    reached = [cw(f(PGD(0.3, steps=3, objective="cw", restarts=n)(f, batch, seeded()).x), batch.y) for n in range(1, 8)]
    for fewer, more in pairwise(reached):
        assert (more >= fewer).all()
    assert (reached[-1] > reached[0]).any()


def test_a_misclassified_restart_comes_before_a_higher_objective():
    """The objective is higher on the left, but only the right end is misclassified."""

    def f(x):
        return torch.cat([torch.zeros_like(x), x - 0.55], dim=1)

    def two_slopes(logits_of, batch):  # |x - 0.5|, twice as steep on the left
        def value(logits):
            place = logits[:, 1] + 0.05
            return torch.where(place < 0, -2 * place, place)

        return value

    batch = batch_of(middle(12, 1), [0] * 12)
    single = PGD(0.1, objective=two_slopes)(f, batch, seeded())
    assert {round(v, 9) for v in single.x.flatten().tolist()} == {0.4, 0.6}
    found = PGD(0.1, objective=two_slopes, restarts=12)(f, batch, seeded())
    torch.testing.assert_close(found.x, torch.full_like(batch.x, 0.6))
    left = batch._replace(y=torch.ones_like(batch.y))  # and the other way round
    torch.testing.assert_close(
        PGD(0.1, objective=two_slopes, restarts=12)(f, left, seeded()).x, torch.full_like(batch.x, 0.4)
    )


# The adversary that knows the weights


def by_hand(features):
    """Return omega's input as a function of (logits, clean logits, labels), from the formulas."""

    def other(p, y):
        return p.scatter(1, y[:, None], -1).amax(1)

    def own(p, y):
        return p.gather(1, y[:, None])[:, 0]

    def ce(z, y):
        return z.logsumexp(1) - own(z, y)

    return {
        "multiclass-margin": lambda z, c, y: own(z.softmax(1), y)[:, None] - z.softmax(1),
        "margin": lambda z, c, y: (own(z.softmax(1), y) - other(z.softmax(1), y))[:, None],
        "adversarial-loss": lambda z, c, y: ce(z, y)[:, None],
        "loss-difference": lambda z, c, y: (ce(z, y) - ce(c, y))[:, None],
    }[features]


def weight_network(features, classes=4):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(2)
        network = WeightNet(classes if features == "multiclass-margin" else 1, (8,)).double()
        for p in network.parameters():
            torch.nn.init.normal_(p, std=2)
    return network


def climb_by_hand(f, batch, features, network, norm, eps, steps, *, detach):
    with torch.no_grad():
        clean = f(batch.x)
    a, b, c, d = network.parameters()
    x = batch.x
    for _ in range(steps):
        x = x.detach().requires_grad_()
        z = f(x)
        hidden = (by_hand(features)(z, clean, batch.y) @ a.T + b).clamp_min(0)
        omega = 1 / (1 + (-(hidden @ c.T + d)[:, 0]).exp())
        loss = z.logsumexp(1) - z.gather(1, batch.y[:, None])[:, 0]
        (gradient,) = torch.autograd.grad(((omega.detach() if detach else omega) * loss).sum(), x)
        if norm == "linf":
            moved = (x + eps / 4 * gradient.sign() - batch.x).clamp(-eps, eps)
        else:
            moved = x + eps / 4 * gradient / gradient.norm(dim=1, keepdim=True) - batch.x
            moved = moved * (eps / moved.norm(dim=1, keepdim=True)).clamp_max(1)
        x = (batch.x + moved).clamp(0, 1)
    return x.detach()


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("steps", [1, 6])
def test_weight_aware_pgd_climbs_the_product(steps, norm, features):
    f, network = mlp(), weight_network(features)
    batch = batch_of(torch.rand(10, 6, generator=seeded(), dtype=torch.float64), torch.arange(10) % 4)
    omega = Omega(network, features)
    for p in network.parameters():
        p.register_hook(lambda _: pytest.fail("a gradient reached the weight network"))
    attack = weight_aware_pgd(0.2, weight=omega.at, norm=norm, steps=steps, start="zero")
    found = attack(f, batch)
    arguments = f, batch, features, network, norm, 0.2, steps
    torch.testing.assert_close(found.x, climb_by_hand(*arguments, detach=False), rtol=0, atol=1e-9)
    assert (found.x - climb_by_hand(*arguments, detach=True)).abs().max() > 1e-3
    assert all(p.grad is None for p in network.parameters())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_constant_weight_changes_nothing(objective):
    f, batch = mlp(), batch_of(torch.rand(10, 6, generator=seeded(), dtype=torch.float64), torch.arange(10) % 4)

    def half(logits_of, batch):
        return lambda logits: torch.full_like(logits[:, 0], 0.5)

    aware = weight_aware_pgd(0.1, weight=half, objective=objective, start="gaussian", restarts=2)
    plain = PGD(0.1, objective=objective, start="gaussian", restarts=2)
    assert torch.equal(aware(f, batch, seeded()).x, plain(f, batch, seeded()).x)


# The attack on the heaviest


class Given:
    """Weights that are handed in."""

    normalised, reads = True, frozenset({"clean"})

    def __init__(self, weights):
        self.weights = weights

    def __call__(self, terms, adversarial, y):
        assert terms.logits is not None
        assert not terms.logits.requires_grad
        return self.weights


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([0.8, 0.5, 1.0, 1, 0.25, 0.01, 0.1, 1e-9, 0.999]), st.integers(1, 12), st.integers(0, 99))
def test_exactly_the_heaviest_are_attacked(fraction, n, seed):
    f, drawn = mlp(), seeded(seed)
    batch = batch_of(torch.rand(n, 6, generator=drawn, dtype=torch.float64), torch.arange(n) % 4)
    weights = torch.rand(n, generator=drawn, dtype=torch.float64)
    found = TopFraction(PGD(0.1), Given(weights), fraction)(f, batch, seeded(seed))
    count = math.ceil(Fraction(str(fraction)) * n)
    assert found.attacked.dtype == torch.bool
    assert found.attacked.tolist() == [w in weights.topk(count).values for w in weights]
    assert ((found.x != batch.x).any(1) == found.attacked).all()
    assert (found.survived[~found.attacked] == found.steps).all()
    assert found.steps == 10
    top = weights.argsort(descending=True)[:count]
    alone = PGD(0.1)(f, Batch(*(part[top] for part in batch)), seeded(seed))
    assert torch.equal(found.x[top], alone.x)
    assert torch.equal(found.survived[top], alone.survived)


@pytest.mark.parametrize(("fraction", "n", "count"), [(0.55, 100, 55), (0.28, 25, 7), (0.07, 100, 7)])
def test_rounding_adds_no_sample(fraction, n, count):
    batch = batch_of(middle(n, 2), [0] * n)
    found = TopFraction(PGD(0.1, steps=1), Uniform(), fraction)(flat, batch, seeded())
    assert found.attacked.sum() == count


def test_heaviest_by_a_real_scheme():
    f, batch = mlp(), batch_of(torch.rand(9, 6, generator=seeded(), dtype=torch.float64), torch.arange(9) % 4)
    found = TopFraction(PGD(0.1), Mail(margin_from="clean"), 1 / 3)(f, batch, seeded())
    p = f(batch.x).softmax(1)
    own = p.gather(1, batch.y[:, None])[:, 0]
    margin = own - p.scatter(1, batch.y[:, None], -1).amax(1)
    assert found.attacked.tolist() == (margin <= margin.sort().values[2]).tolist()  # small margins weigh most


@pytest.mark.parametrize("name", LOSSES)
def test_spared_samples_train_plainly(name):
    f, batch = mlp(), batch_of(torch.rand(10, 6, generator=seeded(), dtype=torch.float64), torch.arange(10) % 4)
    weights = torch.rand(10, generator=seeded(1))
    found = TopFraction(PGD(0.1), Given(weights), 0.6)(f, batch, seeded())
    z = f(batch.x)
    ce = z.logsumexp(1) - z.gather(1, batch.y[:, None])[:, 0]
    terms = LOSSES[name]()(f, batch, found)
    whole = LOSSES[name]()(f, batch, found._replace(attacked=None))
    spared = ~found.attacked
    assert spared.sum() == 4
    torch.testing.assert_close(terms.fixed[spared], ce[spared], rtol=0, atol=1e-14)
    assert not terms.robust[spared].any()
    torch.testing.assert_close(terms.fixed[~spared], whole.fixed[~spared], rtol=0, atol=0)
    torch.testing.assert_close(terms.robust[~spared], whole.robust[~spared], rtol=0, atol=0)


# What is refused


def no_weight(logits_of, batch):
    return lambda logits: logits[:, 0]


BAD_EPS = [-0.1, -1e-30, -math.inf, math.inf, math.nan, True, "0.1", None, [0.1], 1j]


@pytest.mark.parametrize("eps", BAD_EPS, ids=repr)
@pytest.mark.parametrize("name", ATTACKS)
def test_bad_eps_is_refused(name, eps):
    with pytest.raises(ValueError, match="is not accepted; it takes a finite number >= 0") as error:
        build(name, eps)
    assert f"eps = {eps!r} " in str(error.value)


@pytest.mark.parametrize(
    ("make", "setting", "accepted"),
    [
        (lambda: PGD(0.1, norm="l3"), "norm = 'l3'", "one of l2, linf"),
        (lambda: PGD(0.1, norm="Linf"), "norm = 'Linf'", "did you mean 'linf'?"),
        (lambda: PGD(0.1, norm=2), "norm = 2", "one of l2, linf"),
        (lambda: PGD(0.1, norm=["l2"]), "norm = ['l2']", "one of l2, linf"),
        (lambda: PGD(0.1, norm=None), "norm = None", "one of l2, linf"),
        (lambda: PGD(0.1, start="random"), "start = 'random'", "one of gaussian, uniform, zero"),
        (lambda: PGD(0.1, start="gausian"), "start = 'gausian'", "did you mean 'gaussian'?"),
        (lambda: PGD(0.1, start=None), "start = None", "one of gaussian"),
        (lambda: PGD(0.1, objective="dlr"), "objective = 'dlr'", "one of ce, cw, kl"),
        (lambda: PGD(0.1, objective=None), "objective = None", "one of ce, cw, kl"),
        (lambda: PGD(0.1, objective=3), "objective = 3", "one of ce, cw, kl"),
        (lambda: PGD(0.1, steps=0), "steps = 0", "a whole number >= 1"),
        (lambda: PGD(0.1, steps=-3), "steps = -3", "a whole number >= 1"),
        (lambda: PGD(0.1, steps=2.0), "steps = 2.0", "a whole number >= 1"),
        (lambda: PGD(0.1, steps=True), "steps = True", "a whole number >= 1"),
        (lambda: PGD(0.1, steps="10"), "steps = '10'", "a whole number >= 1"),
        (lambda: PGD(0.1, restarts=0), "restarts = 0", "a whole number >= 1"),
        (lambda: PGD(0.1, restarts=1.5), "restarts = 1.5", "a whole number >= 1"),
        (lambda: PGD(0.1, restarts=None), "restarts = None", "a whole number >= 1"),
        (lambda: PGD(0.1, step_size=0), "step_size = 0", "a finite number > 0"),
        (lambda: PGD(0.1, step_size=-0.1), "step_size = -0.1", "a finite number > 0"),
        (lambda: PGD(0.1, step_size=math.nan), "step_size = nan", "a finite number > 0"),
        (lambda: PGD(0.1, step_size=math.inf), "step_size = inf", "a finite number > 0"),
        (lambda: PGD(0.1, step_size=True), "step_size = True", "a finite number > 0"),
        (lambda: PGD(0.1, step_size="1"), "step_size = '1'", "a finite number > 0"),
        (lambda: fgsm(0.1, norm="l1"), "norm = 'l1'", "one of l2, linf"),
        (lambda: fgsm(0.1, objective="c"), "objective = 'c'", "did you mean 'c"),
        (lambda: weight_aware_pgd(0.1, weight=no_weight, objective="CE"), "objective = 'CE'", "ce, cw, kl"),
        (lambda: weight_aware_pgd(0.1, weight=no_weight, objective=no_weight), "objective = <", "ce, cw, kl"),
        (lambda: weight_aware_pgd(0.1, weight=no_weight, steps=0), "steps = 0", "a whole number >= 1"),
        (lambda: weight_aware_pgd(0.1, weight="omega"), "weight = 'omega'", "a function such as Omega.at"),
        (lambda: TopFraction(PGD(0.1), Uniform(), 0), "fraction = 0", "above 0 and at most 1"),
        (lambda: TopFraction(PGD(0.1), Uniform(), 1.01), "fraction = 1.01", "above 0 and at most 1"),
        (lambda: TopFraction(PGD(0.1), Uniform(), 80), "fraction = 80", "above 0 and at most 1"),
        (lambda: TopFraction(PGD(0.1), Uniform(), -0.1), "fraction = -0.1", "a finite number >= 0"),
        (lambda: TopFraction(PGD(0.1), Uniform(), math.nan), "fraction = nan", "a finite number"),
        (lambda: TopFraction(PGD(0.1), Uniform(), True), "fraction = True", "a finite number"),
        (lambda: TopFraction(PGD(0.1), Uniform(), "0.8"), "fraction = '0.8'", "a finite number"),
        (lambda: TopFraction(PGD(0.1), Mail()), "scheme = 'Mail'", "depend on the clean x alone"),
        (lambda: TopFraction(PGD(0.1), Wmmr()), "scheme = 'Wmmr'", "depend on the clean x alone"),
        (lambda: TopFraction(PGD(0.1), Gairat()), "scheme = 'Gairat'", "depend on the clean x alone"),
    ],
)  # fmt: skip
def test_refusals_name_setting_value_and_what_is_accepted(make, setting, accepted):
    with pytest.raises(ValueError, match="is not accepted; it takes") as error:
        make()
    assert setting in str(error.value)
    assert accepted in str(error.value)


X, Y = torch.rand(4, 2, 4, 4), torch.arange(4) % 3


@pytest.mark.parametrize(
    ("x", "y", "setting", "accepted"),
    [
        (X[:3], Y, "y = 'int64 tensor of shape (4,)'", "an int64 tensor of shape (3,)"),
        (X, Y[:1], "y = 'int64 tensor of shape (1,)'", "an int64 tensor of shape (4,)"),
        (X, Y[:, None], "y = 'int64 tensor of shape (4, 1)'", "an int64 tensor of shape (4,)"),
        (X, Y.float(), "y = 'float32 tensor of shape (4,)'", "an int64 tensor"),
        (X, Y.int(), "y = 'int32 tensor of shape (4,)'", "an int64 tensor"),
        (X, Y.tolist(), "y = 'list'", "an int64 tensor"),
        ((X * 255).byte(), Y, "x = 'uint8 tensor of shape (4, 2, 4, 4)'", "floating-point tensor of shape (batch"),
        (X[:0], Y[:0], "x = 'float32 tensor of shape (0, 2, 4, 4)'", "a non-empty"),
        (X[:, 0, 0, 0], Y, "x = 'float32 tensor of shape (4,)'", "of shape (batch, ...)"),
        (X.numpy(), Y, "x = 'ndarray'", "floating-point tensor"),
    ],
)  # fmt: skip
def test_wrong_batches_are_refused(x, y, setting, accepted):
    for attack in (PGD(0.1), fgsm(0.1), PGD(0.1, restarts=2, objective="kl")):
        with pytest.raises(ValueError, match="is not accepted; it takes") as error:
            attack(net(), Batch(x, y, torch.arange(4)), seeded())
        assert setting in str(error.value)
        assert accepted in str(error.value)
