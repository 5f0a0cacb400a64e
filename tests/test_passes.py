"""How many passes a training step and PGD make: exact counts, that may not grow unnoticed."""

from collections import Counter

import pytest
import torch

from bilaw import net
from bilaw.algorithm import Method, bilaw_step, weighted_step
from bilaw.attacks import PGD, fast_fgsm
from bilaw.chain import Chain
from bilaw.losses import AdversarialCE, Trades
from bilaw.models import build
from bilaw.net import Net
from bilaw.types import Batch
from bilaw.weighting import Learned, NonParametric, Omega, WeightNet


@pytest.fixture
def passes(monkeypatch):
    """Count the forwards of chains and of the module itself, all backwards, and how often the two are compared."""
    seen = Counter()
    same = net._same

    def compared(*args):
        before = Counter(seen)
        found = same(*args)
        seen.clear()
        seen.update(before)
        seen["compared"] += 1
        return found

    monkeypatch.setattr(net, "_same", compared)

    def counted(owner, name, what):
        true = getattr(owner, name)

        def call(*args, **kwargs):
            seen[what] += 1
            return true(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    counted(Chain, "__call__", "chain")
    counted(Net, "_logits", "module")
    counted(torch.autograd, "grad", "backward")
    return seen


def batch(n=6, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    return Batch(torch.rand(n, 1, 8, 8, generator=drawn), torch.randint(10, (n,), generator=drawn), torch.arange(n))


def learned():
    network = WeightNet(10)
    return Learned(Omega(network), torch.optim.Adam(network.parameters()))


def taken(method, seen, meta):
    """Return the passes of a step."""
    module = build("small-cnn", (1, 8, 8), 10, seed=0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    if meta:
        bilaw_step(Net(module), optimizer, batch(), batch(seed=1), method, 0, 0)
    else:
        weighted_step(Net(module), optimizer, batch(), method, 0, 0)
    return dict(seen)


def pgd(loss, steps=10):
    return PGD(0.1, steps=steps, objective=loss.objective, start=loss.start)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (AdversarialCE(), {"chain": 10, "module": 1, "backward": 11, "compared": 1}),
        (
            Trades(),
            {"chain": 11, "module": 2, "backward": 11, "compared": 1},
        ),  # the clean side of the attack's KL, once
    ],
)
def test_an_adversarial_step(passes, loss, expected):
    assert taken(Method(loss, pgd(loss)), passes, meta=False) == expected


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # Two attacks; the kept graph, the clean margin, the validation loss, the directional derivative; the gradients
        # of lines 5, 6 (v, and the weight network's) and 8.
        (AdversarialCE(), {"chain": 20, "module": 4, "backward": 24, "compared": 2}),
        (Trades(), {"chain": 22, "module": 6, "backward": 24, "compared": 2}),
    ],
)
def test_a_bilaw_step_keeps_one_graph_for_lines_5_and_8(passes, loss, expected):
    assert taken(Method(loss, pgd(loss), learned()), passes, meta=True) == expected


def test_a_non_parametric_step_needs_no_margin(passes):
    loss = AdversarialCE()
    expected = {"chain": 20, "module": 3, "backward": 23, "compared": 2}
    assert taken(Method(loss, pgd(loss), NonParametric()), passes, meta=True) == expected


def test_a_fast_step(passes):
    method = Method(AdversarialCE(), fast_fgsm(0.1), learned())
    assert taken(method, passes, meta=True) == {"chain": 2, "module": 4, "backward": 6, "compared": 2}


def test_pgd_takes_one_forward_and_one_backward_a_step_and_one_forward_more_a_restart(passes):
    classifier = Net(build("small-cnn", (1, 8, 8), 10, seed=0)).frozen()
    for attack, forward, backward in ((PGD(0.1, steps=20), 20, 20), (PGD(0.1, steps=5, restarts=3), 15 + 4, 15)):
        passes.clear()
        attack(classifier, batch())
        assert dict(passes) == {"chain": forward, "backward": backward, "compared": 1}
