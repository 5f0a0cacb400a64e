"""Algorithm 1 against its literal twin, against finite differences, and against what the paper says of it."""

from __future__ import annotations

import copy
from itertools import product

import pytest
import torch
from reference.twin import literal_step, validation_loss
from torch import Tensor, nn

from bilaw.algorithm import Method, Record, bilaw_step, objective, weighted_step
from bilaw.attacks import PGD, TopFraction, fast_fgsm
from bilaw.losses import AdversarialCE, Plain, Trades
from bilaw.models import build
from bilaw.net import Net
from bilaw.rng import generator
from bilaw.types import Batch, Loss, Terms
from bilaw.weighting import FEATURES, SCHEMES, Gairat, Learned, Mail, NonParametric, Omega, Uniform, WeightNet, Wmmr

CLASSES, EPS, STEPS = 10, 0.1, 3
MODELS = {"fc1": (1, 8, 8), "tiny-cnn": (1, 8, 8), "small-cnn": (3, 8, 8)}
LOSSES: dict[str, Loss] = {"adversarial-ce": AdversarialCE(), "trades": Trades(6.0)}


class Bench:
    """A model, a weight network, their optimisers and a method, all in float64 unless told otherwise."""

    def __init__(
        self,
        model: str | nn.Module = "small-cnn",
        loss: str = "adversarial-ce",
        features: str = "multiclass-margin",
        margin_from: str = "clean",
        dtype: torch.dtype = torch.float64,
        **choices: object,
    ) -> None:
        self.shape = MODELS[model] if isinstance(model, str) else (1, 8, 8)
        module = build(model, self.shape, CLASSES, seed=1) if isinstance(model, str) else model
        self.module = module.to(dtype)
        with torch.no_grad():
            # An untrained network says nearly the same of every sample, and differences of nearly equal alignments
            # lose digits in the twin and here alike: spread the logits, as training would. Not Small-CNN's: without
            # running statistics its eval-mode logits are large already, and saturated ones lose digits as well.
            list(module.modules())[-1].weight *= 1 if model == "small-cnn" else 8
        with torch.random.fork_rng():
            torch.manual_seed(2)
            inputs = CLASSES if features == "multiclass-margin" else 1
            self.network = WeightNet(inputs, (16,)).to(dtype)
        self.dtype, self.loss = dtype, LOSSES[loss]
        self.theta_optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=2e-4)
        self.mu_optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-2, weight_decay=1e-4)
        self.scheme = Learned(Omega(self.network, features, margin_from), self.mu_optimizer)
        attack = PGD(EPS, steps=STEPS, objective=self.loss.objective, start=self.loss.start)
        self.method = Method(self.loss, attack, self.scheme, **choices)  # type: ignore[arg-type]

    def data(self, t: int, size: int = 8, meta_size: int = 6) -> tuple[Batch, Batch]:
        drawn = generator(3, "data", t)

        def batch(n: int) -> Batch:
            x = torch.rand(n, *self.shape, generator=drawn, dtype=self.dtype)
            return Batch(x, torch.randint(CLASSES, (n,), generator=drawn), torch.arange(n))

        return batch(size), batch(meta_size)

    def step(self, t: int) -> Record:
        batch, validation = self.data(t)
        return bilaw_step(Net(self.module), self.theta_optimizer, batch, validation, self.method, seed=0, t=t)

    def mu_gradient(self) -> Tensor:
        return torch.cat([p.grad.flatten() for p in self.network.parameters() if p.grad is not None])


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


CASES = [
    *((model, loss, {}) for model, loss in product(MODELS, LOSSES)),
    *(("small-cnn", loss, {"meta_at": "theta"}) for loss in LOSSES),
    *(("tiny-cnn", loss, {"features": f}) for loss, f in product(LOSSES, FEATURES) if f != "multiclass-margin"),
    *(("small-cnn", loss, {"margin_from": "adversarial"}) for loss in LOSSES),
]


@pytest.mark.parametrize(("model", "loss", "choices"), CASES)
def test_three_steps_agree_with_the_literal_double_backward(model: str, loss: str, choices: dict[str, str]) -> None:
    fast, slow = (Bench(model, loss, **choices) for _ in range(2))  # type: ignore[arg-type]
    for t in range(3):
        record = fast.step(t)
        batch, validation = slow.data(t)
        literal = literal_step(
            slow.module,
            slow.network,
            slow.theta_optimizer,
            slow.mu_optimizer,
            *batch[:2],
            *validation[:2],
            loss=loss,
            eps=EPS,
            steps=STEPS,
            step_size=EPS / 4,
            generator=generator(0, "attack", t),
            meta_generator=generator(0, "meta-attack", t),
            **choices,
        )
        assert relative(fast.mu_gradient(), torch.cat([g.flatten() for g in literal.mu_grad])) < 1e-10
        torch.testing.assert_close(record.w, literal.weights_next, rtol=1e-10, atol=1e-14)
        for mine, its in ((fast.module, slow.module), (fast.network, slow.network)):
            for (name, a), b in zip(mine.state_dict().items(), its.state_dict().values(), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_is_that_of_the_whole_two_level_objective(loss: str) -> None:
    """Central differences over mu of L_val(theta~(mu)), both adversarial sets held fixed."""
    bench, twin = Bench("small-cnn", loss), Bench("small-cnn", loss)
    batch, validation = twin.data(0)
    before = copy.deepcopy(twin.network)
    literal = literal_step(
        copy.deepcopy(twin.module),
        twin.network,
        torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1),
        torch.optim.SGD(twin.network.parameters(), lr=0.0),
        *batch[:2],
        *validation[:2],
        loss=loss,
        eps=EPS,
        steps=STEPS,
        step_size=EPS / 4,
        generator=generator(0, "attack", 0),
        meta_generator=generator(0, "meta-attack", 0),
    )
    bench.step(0)
    gradient = bench.mu_gradient()
    drawn = torch.Generator().manual_seed(5)
    for _ in range(4):
        direction = torch.randn(gradient.shape, generator=drawn, dtype=torch.float64)
        direction /= direction.norm()
        values = []
        for h in (1e-4, -1e-4):
            network = copy.deepcopy(before)
            nn.utils.vector_to_parameters(
                nn.utils.parameters_to_vector(before.parameters()) + h * direction, network.parameters()
            )
            values.append(
                validation_loss(
                    twin.module, network, 0.1, *batch[:2], *validation[:2], literal.x_adv, literal.xv_adv, loss=loss
                )
            )
        slope = (values[0] - values[1]) / 2e-4
        torch.testing.assert_close(gradient @ direction, slope, rtol=1e-5, atol=1e-6 * float(gradient.norm()))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_central_difference_stays_within_one_percent_in_float32(loss: str) -> None:
    def alignment(derivative: str) -> Tensor | None:
        bench = Bench("small-cnn", loss, dtype=torch.float32, derivative=derivative)
        with torch.no_grad():  # an untrained KL is all kinks: tests/test_derivatives.py says more
            list(bench.module.modules())[-1].weight *= 8
        return bench.step(0).s

    exact, central = alignment("exact"), alignment("central")
    assert exact is not None
    assert central is not None
    assert relative(central, exact) < 0.01


@pytest.mark.parametrize("derivative", ["exact", "central"])
def test_a_sample_aligned_with_the_validation_gradient_gains_weight(derivative: str) -> None:
    """Ten orthogonal prototypes, one a class. The batch holds each once with its label and once with the next.

    With logits W x and p = softmax, a sample's gradient is (p - e_y) x^T. Against the validation gradient, made of
    the rightly labelled prototypes, the right label gives |p - e_c|^2 > 0; the wrong one (p - e_c+1).(p - e_c) < 0
    while p is still far from sure.
    """
    prototypes = torch.eye(CLASSES)[:, None, :, None]
    labels = torch.arange(CLASSES)
    module = nn.Sequential(nn.Flatten(), nn.Linear(CLASSES, CLASSES, bias=False))
    with torch.no_grad():
        module[1].weight.copy_(torch.eye(CLASSES))
    batch = Batch(prototypes.repeat(2, 1, 1, 1), torch.cat([labels, (labels + 1) % CLASSES]), torch.arange(20))
    torch.manual_seed(0)
    network = WeightNet(CLASSES, (16,))
    scheme = Learned(Omega(network), torch.optim.SGD(network.parameters(), lr=0.5))
    with torch.no_grad():
        before = scheme(Terms(torch.zeros(20), torch.zeros(20), module(batch.x), None), None, batch.y)  # type: ignore[arg-type]
    method = Method(AdversarialCE(), PGD(0.01, steps=1), scheme, derivative=derivative)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    record = bilaw_step(Net(module), optimizer, batch, Batch(prototypes, labels, labels), method, 0, 0)
    assert record.s is not None
    assert record.s[:10].min() > 0 > record.s[10:].max()
    gained = record.w - before / before.sum()
    assert gained[:10].sum() > 0 > gained[10:].sum()


def test_the_sign_of_the_update_is_that_of_the_alignment() -> None:
    """To first order, each weight moves by its own centred alignment when omega sees only who the sample is."""
    bench = Bench("fc1")
    batch, validation = bench.data(0)

    class Lookup(nn.Module):  # a free weight per sample: omega_j = sigmoid(logit_j)
        def __init__(self) -> None:
            super().__init__()
            self.logits = nn.Parameter(torch.zeros(8, dtype=torch.float64))

        def forward(self, features: Tensor) -> Tensor:
            return self.logits[: len(features)].sigmoid()

    lookup = Lookup()
    scheme = Learned(Omega(lookup), torch.optim.SGD(lookup.parameters(), lr=1.0))
    method = Method(bench.loss, bench.method.attack, scheme)
    record = bilaw_step(Net(bench.module), bench.theta_optimizer, batch, validation, method, 0, 0)
    assert record.s is not None
    gained = record.w > 1 / 8
    assert torch.equal(gained, record.s > record.s.mean())


def test_buffers_move_once_a_step_by_the_forward_of_line_8() -> None:
    for loss, forwards in (("adversarial-ce", 1), ("trades", 2)):
        bench = Bench("small-cnn", loss)
        bench.step(0)
        counts = [b.item() for name, b in bench.module.named_buffers() if name.endswith("num_batches_tracked")]
        assert counts == [forwards] * len(counts)
        assert counts


def test_equal_seeds_and_steps_give_equal_bits_and_others_do_not() -> None:
    def after(seed: int) -> Tensor:
        bench = Bench("tiny-cnn", dtype=torch.float32)
        batch, validation = bench.data(0)
        bilaw_step(Net(bench.module), bench.theta_optimizer, batch, validation, bench.method, seed, 0)
        return nn.utils.parameters_to_vector(bench.module.parameters())

    assert torch.equal(after(0), after(0))
    assert not torch.equal(after(0), after(1))


def test_dropout_is_the_same_in_the_graph_and_in_the_directional_derivative() -> None:
    """With dropout, s of the exact and of the central derivative agree only if both see the graph's masks."""

    def alignment(derivative: str) -> Tensor:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, CLASSES))
        s = Bench(module, "trades", derivative=derivative).step(0).s
        assert s is not None
        return s

    assert relative(alignment("central"), alignment("exact")) < 1e-6


def test_non_parametric_weights_are_the_positive_alignments() -> None:
    bench = Bench("fc1")
    bench.method = Method(bench.loss, bench.method.attack, NonParametric())
    record = bench.step(0)
    assert record.s is not None
    expected = record.s.clamp_min(0)
    torch.testing.assert_close(record.w, expected / expected.sum())


def test_uniform_weights_give_the_ordinary_mean() -> None:
    fixed, robust = torch.rand(2, 8, dtype=torch.float64)
    terms = Terms(fixed, robust, None, None)
    torch.testing.assert_close(objective(terms, torch.full((8,), 1 / 8, dtype=torch.float64)), (fixed + robust).mean())


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weighted_step_with_uniform_weights_is_plain_pytorch(loss: str) -> None:
    bench = Bench("small-cnn", loss)
    batch, _ = bench.data(0)
    twin = copy.deepcopy(bench.module)
    method = Method(bench.loss, bench.method.attack)
    weighted_step(Net(bench.module), bench.theta_optimizer, batch, method, 0, 0)
    x_adv = method.attack(twin, batch, generator(0, "attack", 0)).x
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, weight_decay=2e-4)
    twin.train()
    terms = bench.loss(twin, batch, method.attack(bench.module, batch)._replace(x=x_adv))
    (terms.fixed + terms.robust).mean().backward()
    optimizer.step()
    for a, b in zip(bench.module.state_dict().values(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("scheme", [Gairat(), Wmmr(), Mail(), Mail(normalised=False, scale=3)])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_heuristic_takes_a_step_on_every_loss(scheme: Gairat | Wmmr | Mail, loss: str) -> None:
    bench = Bench("tiny-cnn", loss)
    batch, _ = bench.data(0)
    record = weighted_step(
        Net(bench.module), bench.theta_optimizer, batch, Method(bench.loss, bench.method.attack, scheme), 0, 0
    )
    assert record.s is None
    if scheme.normalised:
        assert record.w.sum().item() == pytest.approx(1)
    assert objective(record.terms, record.w).item() == pytest.approx(record.loss.item())


def test_the_reweight_role_may_have_an_attack_of_its_own() -> None:
    calls: list[tuple[str, int]] = []

    class Spy:
        def __init__(self, name: str, attack: PGD) -> None:
            self.name, self.attack = name, attack

        def __call__(self, logits_of, batch, generator=None):  # type: ignore[no-untyped-def]
            calls.append((self.name, len(batch.y)))
            return self.attack(logits_of, batch, generator)

    bench = Bench("tiny-cnn")
    bench.method = Method(bench.loss, Spy("train", PGD(EPS)), bench.scheme, meta_attack=Spy("reweight", fast_fgsm(EPS)))
    bench.step(0)
    assert calls == [("train", 8), ("reweight", 6)]


@pytest.mark.parametrize("loss", LOSSES)
def test_spared_samples_weigh_nothing_and_train_plainly(loss: str) -> None:
    bench = Bench("tiny-cnn", loss)
    attack = TopFraction(bench.method.attack, bench.scheme, 0.5)
    bench.method = Method(bench.loss, attack, bench.scheme)
    record = bench.step(0)
    spared = record.w == 0
    assert int(spared.sum()) == 4
    assert record.w.sum().item() == pytest.approx(1)
    assert bool((record.terms.fixed[spared] > 0).all())
    assert bool((record.terms.robust[spared] == 0).all())


def test_between_meta_steps_the_weights_are_those_of_the_current_mu() -> None:
    bench = Bench("tiny-cnn", meta_every=3)
    before = copy.deepcopy(bench.network.state_dict())
    learned = []
    for t in range(4):
        record = bench.step(t)
        learned.append(record.s is not None)
        moved = any(not torch.equal(a, before[name]) for name, a in bench.network.state_dict().items())
        assert moved
    assert learned == [True, False, False, True]


def test_the_reweight_role_of_the_80_percent_variant_attacks_whole_batches() -> None:
    counts: list[int] = []

    class Counting(PGD):
        def __call__(self, logits_of, batch, generator=None):  # type: ignore[no-untyped-def]
            counts.append(len(batch.y))
            return super().__call__(logits_of, batch, generator)

    bench = Bench("tiny-cnn")
    bench.method = Method(bench.loss, TopFraction(Counting(EPS, steps=1), bench.scheme, 0.5), bench.scheme)
    bench.step(0)
    assert counts == [4, 6]


def test_an_optimiser_of_another_model_is_refused() -> None:
    bench = Bench("fc1")
    batch, _ = bench.data(0)
    other = torch.optim.SGD(build("fc1", (1, 8, 8), CLASSES).parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"optimizer = 'without .*takes every trainable"):
        weighted_step(Net(bench.module), other, batch, Method(bench.loss, bench.method.attack), 0, 0)


def test_weight_decay_leaves_unused_parameters_alone() -> None:
    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(64, CLASSES), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x.flatten(1))

    for step in ("bilaw", "weighted"):
        module = Spare().double()
        before = module.unused.weight.clone()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, weight_decay=0.1)
        bench = Bench("fc1")
        batch, validation = bench.data(0)
        if step == "bilaw":
            bilaw_step(Net(module), optimizer, batch, validation, bench.method, 0, 0)
        else:
            weighted_step(Net(module), optimizer, batch, Method(bench.loss, bench.method.attack), 0, 0)
        assert torch.equal(module.unused.weight, before)


def test_batchnorm_that_its_module_keeps_frozen_stays_frozen() -> None:
    class Frozen(nn.Sequential):
        def train(self, mode: bool = True) -> Frozen:
            super().train(mode)
            self[1].eval()
            return self

    module = Frozen(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, CLASSES)).double()
    bench = Bench("fc1")
    batch, _ = bench.data(0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    weighted_step(Net(module), optimizer, batch, Method(bench.loss, bench.method.attack), 0, 0)
    assert int(module[1].num_batches_tracked) == 0


def test_what_a_method_refuses() -> None:
    attack = PGD(EPS)
    for choice in ({"meta_at": "here"}, {"derivative": "guess"}, {"meta_every": 0}):
        ((setting, value),) = choice.items()
        with pytest.raises(ValueError, match=f"{setting} = {value!r}.*takes"):
            Method(AdversarialCE(), attack, **choice)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"scheme.*Uniform"):
        Method(Plain(), attack, Mail())
    bench = Bench("fc1")
    bench.method = Method(bench.loss, attack, Uniform())
    with pytest.raises(ValueError, match=r"scheme.*learned"):
        bench.step(0)


def test_a_diverged_network_is_named_as_such() -> None:
    bench = Bench("fc1")
    with torch.no_grad():
        next(bench.module.parameters()).fill_(torch.nan)
    with pytest.raises(ValueError, match=r"weights = nan.*diverged"):
        bench.step(0)


def test_the_tables_hold_what_the_issue_names() -> None:
    assert set(SCHEMES) == {"uniform", "gairat", "wmmr", "mail", "non-parametric", "learned", "pretrained"}
