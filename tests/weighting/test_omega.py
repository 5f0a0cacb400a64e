from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
import torch
from torch import nn
from weighting.cases import CASES, an_omega, situation

from bilaw.algorithm import Method, weighted_step
from bilaw.attacks.pgd import PGD
from bilaw.attacks.weight_aware import weight_aware_pgd
from bilaw.losses import AdversarialCE
from bilaw.net import Net
from bilaw.types import Batch
from bilaw.weighting import FEATURES, Learned, NonParametric, Omega, WeightNet, normalise
from bilaw.weighting.features import Logits, width

CAPACITIES = [(), (64,), (64, 64), (128,), (256,)]
every_capacity = pytest.mark.parametrize("hidden", CAPACITIES, ids=str)
every_feature = pytest.mark.parametrize("features", FEATURES)


def double(values):
    return torch.tensor(values, dtype=torch.float64)


# The network.


@every_capacity
@pytest.mark.parametrize("classes", [2, 10, 100])
@every_feature
def test_any_capacity_for_any_number_of_classes(features, classes, hidden):
    inputs = width(features, classes)
    network = WeightNet(inputs, hidden)
    widths = [inputs, *hidden, 1]
    assert sum(p.numel() for p in network.parameters()) == sum(a * b + b for a, b in pairwise(widths))
    omega = Omega(network, features)
    raw = omega(*situation(5, classes, dtype=torch.float32))
    assert raw.shape == (5,)
    assert ((raw > 0) & (raw < 1)).all()


def test_the_papers_network_is_the_default():
    linear = [layer for layer in WeightNet(10).modules() if isinstance(layer, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(10, 128), (128, 1)]
    assert sum(isinstance(layer, nn.ReLU) for layer in WeightNet(10).modules()) == 1


def test_capacity_may_be_any_sequence():
    assert str(WeightNet(3, [4, 5])) == str(WeightNet(3, (4, 5)))


@pytest.mark.parametrize("hidden", [(0,), (-1,), (64, 0), (64.0,), ("64",), (True,), (None,), "64", ([64],)], ids=repr)
def test_a_bad_capacity_is_refused(hidden):
    with pytest.raises(ValueError, match=r"hidden = .* is not accepted; it takes .*whole number"):
        WeightNet(3, hidden)


@pytest.mark.parametrize("hidden", [128, None, 64.0], ids=repr)
def test_a_capacity_that_is_no_sequence_is_refused(hidden):
    with pytest.raises(ValueError, match=r"hidden = .* is not accepted; it takes"):
        WeightNet(3, hidden)


@pytest.mark.parametrize("inputs", [0, -1, 2.0, None, "3"], ids=repr)
def test_a_bad_number_of_inputs_is_refused_by_its_own_name(inputs):
    with pytest.raises(ValueError, match=r"inputs = .* is not accepted; it takes a whole number >= 1"):
        WeightNet(inputs)


def test_a_network_for_another_number_of_classes_is_refused():
    """The pretrained network of METHOD asks for the same k."""
    with pytest.raises(ValueError, match=r"features = .* is not accepted; it takes"):
        an_omega(classes=10)(*situation(classes=4))


@pytest.mark.parametrize("network", ["omega.pt", None, WeightNet], ids=str)
def test_what_is_no_network_is_refused(network):
    with pytest.raises(ValueError, match=r"network = .* is not accepted; it takes"):
        Omega(network)


def test_an_optimiser_of_other_parameters_is_refused():
    """Handing over the classifier's optimiser is the likely slip; autograd's own words do not say so."""
    with pytest.raises(ValueError, match=r"optimizer = .* is not accepted; it takes"):
        Learned(an_omega(), torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1))


# The features.


def test_the_width_of_an_unknown_feature_is_refused():
    with pytest.raises(ValueError, match="features = 'margins' is not accepted; it takes one of"):
        width("margins", 10)


@every_feature
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_features_are_as_wide_as_they_say(features, classes):
    terms, _, y = situation(5, classes)
    found = FEATURES[features](Logits(terms.logits, terms.logits, terms.logits_adv), y)
    assert found.shape == (5, width(features, classes))


def test_each_feature_by_hand():
    clean, adv = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], [[0.1, 0.7, 0.2], [0.25, 0.5, 0.25]]
    y = torch.tensor([0, 2])
    at = Logits(double(clean).log() + 4, double(clean).log(), double(adv).log() - 2)
    by_hand = {
        "multiclass-margin": [[0, 0.6 - 0.3, 0.6 - 0.1], [0.3 - 0.2, 0.3 - 0.5, 0]],
        "margin": [[0.6 - 0.3], [0.3 - 0.5]],
        "adversarial-loss": [[-math.log(0.1)], [-math.log(0.25)]],
        "loss-difference": [[-math.log(0.1) + math.log(0.6)], [-math.log(0.25) + math.log(0.3)]],
    }
    assert set(by_hand) <= set(FEATURES)
    for name, expected in by_hand.items():
        torch.testing.assert_close(FEATURES[name](at, y), double(expected), rtol=1e-12, atol=1e-15)


def test_margins_at_the_adversarial_point_come_from_the_adversarial_logits():
    terms, adversarial, y = situation()
    for features in ("multiclass-margin", "margin"):
        from_adv = an_omega(features=features, margin_from="adversarial")
        from_clean = an_omega(features=features, margin_from="clean")
        swapped = terms._replace(logits=terms.logits_adv, logits_adv=terms.logits)
        assert torch.equal(from_adv(terms, adversarial, y), from_clean(swapped, adversarial, y))


# Line 6: the gradient for mu.


def parameters_of(omega):
    return list(omega.network.parameters())


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def step_by_sgd(omega, batch, s, beta, lr):
    """Learn once; return the weights before and after, and the gradient that was taken."""
    scheme = Learned(omega, torch.optim.SGD(omega.network.parameters(), lr=lr))
    start = flat(parameters_of(omega)).detach().clone()
    w = normalise(scheme(*batch))
    after = normalise(scheme.learn(w, s, beta)(*batch))
    gradient = (start - flat(parameters_of(omega)).detach()) / lr
    return w.detach(), after.detach(), gradient


def line_6(omega, batch, s, beta):
    """-beta sum_j w_j (s_j - sum_i w_i s_i) d log omega_j / dmu, sample by sample."""
    raw = omega(*batch)
    values = raw.tolist()
    w = [value / sum(values) for value in values]
    mean = sum(w_i * float(s_i) for w_i, s_i in zip(w, s, strict=True))
    total = torch.zeros(sum(p.numel() for p in parameters_of(omega)), dtype=torch.float64)
    for j, w_j in enumerate(w):
        slope = flat(torch.autograd.grad(raw[j].log(), parameters_of(omega), retain_graph=True))
        total += -beta * w_j * (float(s[j]) - mean) * slope
    return total


@every_capacity
@pytest.mark.parametrize(("features", "margin_from"), list(product(FEATURES, ["clean", "adversarial"])))
def test_the_gradient_is_methods_closed_formula(features, margin_from, hidden):
    omega = an_omega(10, hidden=hidden, features=features, margin_from=margin_from)
    batch, s = situation(7, 10, seed=3), double([1.0, -2.0, 0.3, 0.0, 5.0, -0.7, 1.1])
    expected = line_6(omega, batch, s, beta=0.1)
    _, _, gradient = step_by_sgd(omega, batch, s, beta=0.1, lr=1.0)
    assert float((gradient - expected).norm() / expected.norm()) < 1e-12


@every_feature
def test_the_gradient_is_left_where_any_optimiser_finds_it(features):
    omega, batch = an_omega(features=features), situation()
    s = double([1.0, -2.0, 0.3, 0.0, 5.0, -0.7])
    for p in parameters_of(omega):
        p.grad = torch.full_like(p, 1e6)  # what an earlier step left must not count
    expected = line_6(omega, batch, s, beta=0.01)
    scheme = Learned(omega, torch.optim.Adam(omega.network.parameters()))
    scheme.learn(normalise(scheme(*batch)), s, beta=0.01)
    torch.testing.assert_close(flat([p.grad for p in parameters_of(omega)]), expected, rtol=1e-11, atol=1e-15)


@every_feature
def test_the_gradient_equals_central_differences(features):
    omega, beta, h = an_omega(hidden=(8,), features=features), 0.1, 1e-6
    batch, s = situation(), double([1.0, -2.0, 0.3, 0.0, 5.0, -0.7])
    start = [p.detach().clone() for p in parameters_of(omega)]

    def lookahead(place, entry, by):
        """First-order validation loss, with one entry of mu moved."""
        with torch.no_grad():
            for p, value in zip(parameters_of(omega), start, strict=True):
                p.copy_(value)
            parameters_of(omega)[place].view(-1)[entry] += by
            raw = omega(*batch)
            return -beta * sum(r * s_j for r, s_j in zip(raw.tolist(), s.tolist(), strict=True)) / sum(raw.tolist())

    differences = [
        (lookahead(place, entry, h) - lookahead(place, entry, -h)) / (2 * h)
        for place, value in enumerate(start)
        for entry in range(value.numel())
    ]
    lookahead(0, 0, 0.0)
    _, _, gradient = step_by_sgd(omega, batch, s, beta, lr=1.0)
    torch.testing.assert_close(gradient, double(differences), rtol=1e-6, atol=1e-9)


@every_capacity
@every_feature
def test_of_two_groups_the_aligned_one_gains(features, hidden):
    """Within a group features are equal, so the group with s above the weighted mean must gain: METHOD's sign."""
    terms, adversarial, y = situation(2, 10, seed=1)
    group = torch.tensor([0, 1, 1, 0, 1])
    batch = type(terms)(*(part[group] for part in terms)), adversarial, y[group]
    s = torch.where(group == 0, 2.0, -1.0).double()
    before, after, _ = step_by_sgd(an_omega(10, hidden=hidden, features=features), batch, s, beta=0.1, lr=1e-3)
    above = s > (before * s).sum()
    assert (after[above] > before[above]).all()
    assert (after[~above] < before[~above]).all()


def test_each_aligned_sample_gains_and_each_opposed_one_loses_in_proportion():
    """Sample t differs from its label only towards class t: Delta is d e_t, so mu moves each on its own.

    From omega = 1/2 everywhere (mu = 0), one step of lr changes w_j by w_j lr beta (1/2)^2 d^2 w_j (s_j - mean s).
    """
    size, lr, beta = 6, 1e-3, 0.1
    terms, adversarial, _ = situation(size, size)
    logits = torch.zeros(size, size, dtype=torch.float64) - 3 * torch.eye(size, dtype=torch.float64)
    batch = terms._replace(logits=logits), adversarial, (torch.arange(size) + 1) % size
    omega = Omega(WeightNet(size, ()).double())
    with torch.no_grad():
        for p in parameters_of(omega):
            p.zero_()
    s = double([3.0, -1.0, 0.5, -4.0, 2.0, 0.3])
    before, after, _ = step_by_sgd(omega, batch, s, beta, lr)
    d = (1 - math.exp(-3)) / (size - 1 + math.exp(-3))
    for j in range(size):
        aligned = float(s[j]) - float(s.mean())
        assert (float(after[j]) > float(before[j])) == (aligned > 0)
        first_order = lr * beta * (1 - 0.5) ** 2 * d**2 * (1 / size) ** 2 * aligned
        assert float(after[j] - before[j]) == pytest.approx(first_order, rel=1e-3)


@every_feature
def test_a_small_step_lowers_the_lookahead_loss_by_the_squared_gradient(features):
    batch, s, lr, beta = situation(), double([1.0, -2.0, 0.3, 0.0, 5.0, -0.7]), 1e-4, 0.1
    before, after, gradient = step_by_sgd(an_omega(features=features), batch, s, beta, lr)
    gain = -beta * float((after - before) @ s)
    assert gain < 0
    assert gain == pytest.approx(-lr * float(gradient @ gradient), rel=1e-2)


def test_alignment_that_is_equal_everywhere_teaches_nothing():
    before, after, gradient = step_by_sgd(an_omega(), situation(), double([2.5] * 6), beta=0.1, lr=1.0)
    assert float(gradient.abs().max()) < 1e-14
    torch.testing.assert_close(after, before)


def test_learning_leaves_the_classifier_and_s_alone():
    theta = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    s = double([1.0, -2.0, 0.3, 0.0, 5.0, -0.7])
    kept = s.clone()
    step_by_sgd(an_omega(), situation(theta=theta), s, beta=0.1, lr=1.0)
    assert theta.grad is None
    assert torch.equal(s, kept)


def test_non_parametric_learns_the_same_whatever_beta():
    batch, s = situation(), double([1.0, -2.0, 0.3, 0.0, 5.0, -0.7])
    ones = NonParametric()(*batch)
    one, other = (NonParametric().learn(ones / 6, s, beta)(*batch) for beta in (1e-3, 10.0))
    assert torch.equal(one, other)


# Pretrained and frozen.


def a_classifier(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)).double()
    x = torch.rand(6, 1, 2, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return model, Batch(x, torch.tensor([0, 1, 2, 3, 0, 1]), torch.arange(6))


@every_feature
def test_a_pretrained_omega_is_used_and_left_alone(features):
    model, batch = a_classifier()
    omega = an_omega(features=features)
    before = [p.detach().clone() for p in parameters_of(omega)]
    method = Method(AdversarialCE(), PGD(0.1, steps=2), omega)
    record = weighted_step(Net(model), torch.optim.SGD(model.parameters(), lr=0.1), batch, method, seed=0, t=0)
    torch.testing.assert_close(record.w, normalise(record.w))
    assert not torch.allclose(record.w, torch.full_like(record.w, 1 / 6), rtol=1e-6)
    assert not record.w.requires_grad
    for p, value in zip(parameters_of(omega), before, strict=True):
        assert p.grad is None
        assert p.requires_grad
        assert torch.equal(p, value)


def test_what_was_learned_on_one_classifier_weighs_another():
    omega = an_omega()
    scheme = Learned(omega, torch.optim.SGD(omega.network.parameters(), lr=1.0))
    scheme.learn(normalise(scheme(*situation())), torch.arange(6).double(), beta=0.1)
    other = situation(9, seed=5)
    assert torch.equal(Omega(omega.network)(*other), scheme(*other))


# The weight-aware adversary's view.


@every_feature
@pytest.mark.parametrize("margin_from", ["clean", "adversarial"])
def test_at_is_omega_of_the_features_at_the_point_with_its_gradient(features, margin_from):
    model, batch = a_classifier()
    omega = an_omega(features=features, margin_from=margin_from)
    point = (batch.x + 0.05).requires_grad_()
    value = omega.at(model, batch)(model(point))
    clean, at = model(batch.x).detach(), model(point).detach()
    expected = omega.network(FEATURES[features](Logits(at, clean, at), batch.y))
    torch.testing.assert_close(value, expected, rtol=1e-13, atol=0)
    (gradient,) = torch.autograd.grad(value.sum(), point)
    assert (gradient.flatten(1).norm(dim=1) > 0).all()
    along, h = torch.linspace(-1, 1, 24, dtype=torch.float64).view_as(batch.x), 1e-6
    with torch.no_grad():
        ahead, behind = (omega.at(model, batch)(model(point + sign * h * along)).sum() for sign in (1, -1))
    assert float((gradient * along).sum()) == pytest.approx(float(ahead - behind) / (2 * h), rel=1e-6)
    assert all(p.grad is None for p in [*model.parameters(), *parameters_of(omega)])


@every_feature
def test_the_weight_aware_attack_climbs_weight_times_loss_and_leaves_no_gradient(features):
    model, batch = a_classifier(seed=2)
    omega = an_omega(features=features)
    attack = weight_aware_pgd(0.1, weight=omega.at, steps=1, start="zero", step_size=1e-3)
    found = attack(model, batch, torch.Generator().manual_seed(0))
    point = batch.x.clone().requires_grad_()
    logits = model(point)
    product_ = omega.at(model, batch)(logits) * nn.functional.cross_entropy(logits, batch.y, reduction="none")
    (gradient,) = torch.autograd.grad(product_.sum(), point)
    by_hand = (batch.x + 1e-3 * gradient.sign()).clamp(0, 1)
    torch.testing.assert_close(found.x, by_hand, rtol=0, atol=1e-12)
    assert all(p.grad is None for p in [*model.parameters(), *parameters_of(omega)])


def test_the_cases_cover_every_feature():
    assert {dict(case.settings).get("features") for case in CASES} >= set(FEATURES)


@every_feature
def test_the_clean_side_of_at_is_a_constant(features):
    model, batch = a_classifier()
    x = batch.x.clone().requires_grad_()
    value = an_omega(features=features).at(model, batch._replace(x=x))(model(batch.x + 0.05))
    assert torch.autograd.grad(value.sum(), x, allow_unused=True) == (None,)
