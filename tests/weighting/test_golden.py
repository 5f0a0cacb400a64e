"""Weights by hand: the formulas of METHOD section 4, in the arithmetic of `math`."""

from __future__ import annotations

import math

import pytest
import torch

from bilaw.types import Adversarial, Terms
from bilaw.weighting import Gairat, Mail, NonParametric, Omega, Uniform, WeightNet, Wmmr, normalise

# Three samples of three classes; logits are logarithms, so that the softmax is what is written here.
P_CLEAN = [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.05, 0.05, 0.9]]
P_ADV = [[0.5, 0.4, 0.1], [0.2, 0.6, 0.2], [0.25, 0.25, 0.5]]
Y = [0, 2, 2]
M_CLEAN = [0.7 - 0.2, 0.4 - 0.3, 0.9 - 0.05]
M_ADV = [0.5 - 0.4, 0.2 - 0.6, 0.5 - 0.25]


def logits(probabilities, dtype=torch.float64):
    shift = torch.tensor([[3.0], [-7.0], [0.0]], dtype=dtype)  # a softmax does not see it
    return torch.tensor(probabilities, dtype=dtype).log() + shift


def terms(dtype=torch.float64):
    nothing = torch.zeros(3, dtype=dtype)
    return Terms(nothing, nothing, logits(P_CLEAN, dtype), logits(P_ADV, dtype))


def weigh(scheme, survived=(0, 0, 0), steps=10, dtype=torch.float64):
    path = Adversarial(torch.zeros(3, 1), torch.tensor(survived), steps)
    return scheme(terms(dtype), path, torch.tensor(Y)).tolist()


def exactly(values):
    return pytest.approx(values, rel=1e-12)


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def test_uniform():
    assert weigh(Uniform()) == [1, 1, 1]


def path_of(steps):
    return Adversarial(torch.zeros(steps + 1, 1), torch.arange(steps + 1), steps)


def every_kappa(lam, steps, dtype):
    nothing = torch.zeros(steps + 1, dtype=dtype)
    return Gairat(lam=lam)(Terms(nothing, nothing, None, None), path_of(steps), torch.zeros(steps + 1).long())


@pytest.mark.parametrize("steps", [1, 2, 10, 20])
@pytest.mark.parametrize("lam", [-1, 0, 0.5, 3])
def test_gairat(lam, steps):
    by_hand = [(1 + math.tanh(lam + 5 * (1 - 2 * kappa / steps))) / 2 for kappa in range(steps + 1)]
    assert every_kappa(lam, steps, torch.float64).tolist() == exactly(by_hand)


def test_gairat_at_lambda_minus_one_as_numbers():
    raw = every_kappa(-1, 10, torch.float64)
    # kappa = 0: tanh(4); kappa = 4: tanh(0); kappa = 10: tanh(-6)
    assert raw[[0, 4, 10]].tolist() == pytest.approx([0.9996646498695336, 0.5, 6.1441746022e-06], rel=1e-9)


@pytest.mark.parametrize("lam", [-1, -3, 0])
def test_gairat_in_single_precision_loses_no_digits_where_tanh_nears_minus_one(lam):
    """(1 + tanh z) / 2 = 1 / (1 + exp(-2 z)), which does not cancel."""
    by_hand = [sigmoid(2 * (lam + 5 * (1 - 2 * kappa / 10))) for kappa in range(11)]
    assert every_kappa(lam, 10, torch.float32).tolist() == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("a", [0.1, 0.5, 2])
def test_wmmr(a):
    assert weigh(Wmmr(a=a)) == exactly([math.exp(-a * m) for m in M_ADV])
    assert weigh(Wmmr(a=a, margin_from="clean")) == exactly([math.exp(-a * m) for m in M_CLEAN])


def test_wmmr_as_numbers():
    assert weigh(Wmmr(a=2)) == exactly([math.exp(-0.2), math.exp(0.8), math.exp(-0.5)])


def test_mail_of_the_paper():
    assert weigh(Mail(g=5, b=0.05)) == exactly([sigmoid(-5 * (m - 0.05)) for m in M_ADV])
    assert weigh(Mail()) == weigh(Mail(g=5, b=0.05))
    assert weigh(Mail(margin_from="clean")) == exactly([sigmoid(-5 * (m - 0.05)) for m in M_CLEAN])
    assert weigh(Mail()) == exactly([sigmoid(-0.25), sigmoid(2.25), sigmoid(-1)])


@pytest.mark.parametrize(("slope", "bias"), [(10, -0.5), (2, 0)])
def test_mail_of_its_authors(slope, bias):
    """They write w = 3 sigmoid(slope (-m + bias)), and do not normalise (PEERS)."""
    scheme = Mail(g=slope, b=bias, scale=3, normalised=False)
    by_hand = [3 * sigmoid(slope * (-m + bias)) for m in M_ADV]
    assert weigh(scheme) == exactly(by_hand)
    w = normalise(torch.tensor(weigh(scheme), dtype=torch.float64), scheme.normalised)
    assert w.tolist() == exactly([value / 3 for value in by_hand])  # sum_i w_i l_i is their mean over the batch


def test_non_parametric():
    batch = terms(), Adversarial(torch.zeros(3, 1), torch.zeros(3).long(), 10), torch.tensor(Y)
    s = torch.tensor([0.4, -0.3, 1.2], dtype=torch.float64)
    raw = NonParametric().learn(NonParametric()(*batch), s, beta=0.1)(*batch)
    assert raw.tolist() == [max(0, 0.4), max(0, -0.3), max(0, 1.2)]
    assert normalise(raw).tolist() == exactly([0.4 / 1.6, 0, 1.2 / 1.6])


def hand_set(*layers):
    """Return a WeightNet with the weights and biases given layer by layer."""
    inputs, hidden = len(layers[0][0][0]), [len(bias) for _, bias in layers[:-1]]
    network = WeightNet(inputs, hidden).double()
    values = [torch.tensor(value, dtype=torch.float64) for layer in layers for value in layer]
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), values, strict=True):
            parameter.copy_(value)
    return network


def test_learned_on_the_multiclass_margin():
    network = hand_set(([[1, -2, 0.5], [3, 1, -1]], [0.1, -0.2]), ([[2, -1]], [0.25]))
    by_hand = []
    for p, y in zip(P_CLEAN, Y, strict=True):
        d = [p[y] - p_j for p_j in p]
        h1 = max(0, d[0] - 2 * d[1] + 0.5 * d[2] + 0.1)
        h2 = max(0, 3 * d[0] + d[1] - d[2] - 0.2)
        by_hand.append(sigmoid(2 * h1 - h2 + 0.25))
    assert weigh(Omega(network)) == exactly(by_hand)
    # Sample 0: Delta = (0, .5, .6), h = (max(0, -.6), max(0, -.3)) = (0, 0)
    assert by_hand[0] == exactly(sigmoid(0.25))


def ce(p):
    return [-math.log(row[y]) for row, y in zip(p, Y, strict=True)]


@pytest.mark.parametrize(
    ("features", "margin_from", "by_hand"),
    [
        ("margin", "clean", M_CLEAN),
        ("margin", "adversarial", M_ADV),
        ("adversarial-loss", "clean", ce(P_ADV)),
        ("loss-difference", "clean", [a - c for a, c in zip(ce(P_ADV), ce(P_CLEAN), strict=True)]),
        ("loss-difference", "adversarial", [a - c for a, c in zip(ce(P_ADV), ce(P_CLEAN), strict=True)]),
    ],
)
def test_learned_on_the_scalar_features(features, margin_from, by_hand):
    network = hand_set(([[2.0]], [-0.75]))
    assert weigh(Omega(network, features, margin_from)) == exactly([sigmoid(2 * f - 0.75) for f in by_hand])
