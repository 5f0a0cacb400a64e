"""Noise decides nothing: honest classifiers pass with few samples, and one sample more or less is no finding."""

import evaluation_kit as kit
import pytest
import torch
from torch import nn

from bilaw import evaluate
from bilaw.datasets.table import load
from bilaw.evaluation.findings import counted, excess


def trained(net, x, y, steps, lr):
    optimizer = torch.optim.Adam(net.parameters(), lr)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


def network(*sizes, seed):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(*sizes[:2]), nn.ReLU(), nn.Linear(*sizes[1:]))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_honest_network_that_is_far_from_linear_passes_every_check(seed):
    x = torch.rand(400, 1, 1, 2, generator=torch.Generator().manual_seed(seed))
    y = (x > 0.5).flatten(1).sum(1) % 2
    net = trained(network(2, 32, 2, seed=seed), x, y, steps=400, lr=0.02)
    for n in (200, 25):
        found = evaluate(net, x[:n], y[:n], eps=0.05, attacks=["pgd-20", "fgsm"], audit=n)
        assert found.scores["clean"].accuracy > 0.99
        assert found.scores["pgd-20"].accuracy < 0.9
        assert [finding for finding in found.audit if finding.verdict != "pass"] == []


COMPARING = ("one step", "effort", "losses", "budget curve", "gap")  # checks of two accuracies on the same samples


def test_of_fifty_honest_networks_judged_by_few_digits_none_fails():
    train, test = load("digits").train, kit.digits(450)
    failed, doubted = [], []
    for seed in range(50):
        net = trained(network(64, 32, 10, seed=seed), train.x.float() / 255, train.y, steps=40, lr=0.01)
        n = (20, 25)[seed % 2]
        some = slice(8 * seed, 8 * seed + n)
        found = evaluate(net, test.x[some], test.y[some], eps=0.15, attacks=["pgd-20", "fgsm"], audit=n)
        failed += [(seed, finding) for finding in found.audit if finding.verdict == "fail"]
        doubted += [(seed, finding) for finding in found.audit if finding.verdict == "warn"]
    assert failed == []
    assert [one for one in doubted if one[1].check in COMPARING] == []
    assert len(doubted) == 0


def held(count, n, first=0):
    return (torch.arange(n) >= first) & (torch.arange(n) < first + count)


@pytest.mark.parametrize(
    ("more", "less", "n", "verdict"),
    [  # McNemar's exact p of k samples that only one holds is 2 / 2^k
        (0, 0, 25, "pass"),
        (1, 0, 25, "pass"),  # 4 points, and one sample
        (5, 0, 25, "pass"),  # p = 0.063
        (6, 0, 25, "warn"),  # p = 0.031
        (7, 0, 25, "warn"),  # p = 0.016
        (8, 0, 25, "fail"),  # p = 0.0078
        (8, 0, 1000, "pass"),  # beyond chance, and 0.8 points
        (15, 0, 1000, "warn"),  # 1.5 points
        (21, 0, 1000, "fail"),
        (60, 50, 200, "pass"),  # 5 points, p = 0.39
        (0, 20, 25, "pass"),  # less is no excess
    ],
)
def test_an_excess_counts_where_it_is_both_large_and_more_than_chance(more, less, n, verdict):
    a, b = held(more, n), held(less, n, first=n // 2 if more + less <= n // 2 else more)
    assert excess(a, b, 0.01, 0.02) == (pytest.approx((more - less) / n), verdict)


@pytest.mark.parametrize(
    ("count", "n", "verdict"),
    [
        (0, 10, "pass"),
        (1, 1, "warn"),
        (2, 2, "warn"),  # a share of 1, and too few to fail anything
        (3, 3, "fail"),
        (3, 59, "fail"),
        (3, 60, "warn"),  # 5 % are not more than 5 %
        (1, 1000, "warn"),
        (0, 0, "pass"),
    ],
)
def test_a_share_fails_with_three_samples_or_more(count, n, verdict):
    assert counted(count, n, 0.0, 0.05) == (pytest.approx(count / n if n else 0), verdict)
