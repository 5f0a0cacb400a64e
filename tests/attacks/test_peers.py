"""AutoAttack against its authors' code and torchattacks', sample by sample. `make test-long` installs both."""

import pytest
import torch

from bilaw import fit
from bilaw.attacks import NORMS
from bilaw.attacks.autoattack import standard
from bilaw.config import AttackConfig, Config, LogConfig, OptimConfig
from bilaw.datasets import digits
from bilaw.datasets.augment import to_unit
from bilaw.evaluation.verdicts import judge
from bilaw.models import build
from bilaw.rng import generator
from bilaw.types import Batch

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
EPS = {"linf": 0.1, "l2": 0.5}
COMPONENTS = ("apgd-ce", "apgd-t", "fab-t", "square")
SAMPLES = 300


@pytest.fixture(scope="module", params=sorted(EPS))
def trained(request):
    """A robust Tiny-CNN, and the test digits that it gets right."""
    norm, data = request.param, digits.load()
    model = build("tiny-cnn", (1, 8, 8), 10, seed=0)
    attack = AttackConfig(eps=EPS[norm], norm=norm, steps=5)
    fit(model, data, Config(attack=attack, optim=OptimConfig(epochs=15, batch=64, lr=0.05), log=LogConfig(to=())))
    model.eval().requires_grad_(False)
    x, y = to_unit(data.test.x)[:SAMPLES], data.test.y[:SAMPLES]
    right = model(x).argmax(dim=1) == y
    return model, x[right], y[right], norm


def ours(model, x, y, norm, names):
    robust = torch.ones(len(y), dtype=torch.bool)
    for name in names:
        left = robust.nonzero()[:, 0]
        batch = Batch(x[left], y[left], left)
        attack = standard(EPS[norm], norm)[name]
        robust[left] = judge(model, batch, attack, EPS[norm], norm, generator(0, name)).robust
    return robust


def judged(model, x, y, norm, found):
    inside = NORMS[norm].size(found - x) <= EPS[norm] * (1 + 1e-5) + 1e-6
    return ~((model(found).argmax(dim=1) != y) & inside)


def authors(model, x, y, norm, names):
    from pyautoattack import AutoAttack

    attack = AutoAttack(
        model, attacks=list(names), norm={"linf": "Linf", "l2": "L2"}[norm], eps=EPS[norm], version="custom", seed=0
    )
    attack.apgd.n_restarts = 1  # as in its standard version; a custom one takes 5
    return judged(model, x, y, norm, attack.run_standard_evaluation(x, y, batch_size=len(x))[0])


def torchattacks(model, x, y, norm, names):
    import torchattacks as peer

    shared = {"norm": {"linf": "Linf", "l2": "L2"}[norm], "eps": EPS[norm], "seed": 0}
    make = {
        "apgd-ce": lambda: peer.APGD(model, steps=100, loss="ce", **shared),
        "apgd-t": lambda: peer.APGDT(model, steps=100, n_classes=10, **shared),
        "fab-t": lambda: peer.FAB(model, steps=100, n_classes=10, multi_targeted=True, **shared),
        "square": lambda: peer.Square(model, n_queries=5000, **shared),
    }
    robust = torch.ones(len(y), dtype=torch.bool)
    for name in names:
        left = robust.nonzero()[:, 0]
        robust[left] = judged(model, x[left], y[left], norm, make[name]()(x[left], y[left]))
    return robust


@pytest.mark.parametrize("peer", [authors, torchattacks])
def test_the_ensemble_is_as_strong_and_its_verdicts_are_the_same(trained, peer):
    model, x, y, norm = trained
    mine, theirs = ours(model, x, y, norm, COMPONENTS), peer(model, x, y, norm, COMPONENTS)
    assert 0.2 < theirs.double().mean() < 0.95  # there is something to find, and something to miss
    assert mine.sum() <= theirs.sum() + 0.003 * SAMPLES
    assert (mine == theirs).double().mean() >= 0.99


@pytest.mark.parametrize("peer", [authors, torchattacks])
@pytest.mark.parametrize("name", COMPONENTS)
def test_each_component_alone_is_within_a_point(trained, peer, name):
    model, x, y, norm = trained
    mine, theirs = ours(model, x, y, norm, [name]), peer(model, x, y, norm, [name])
    assert mine.sum() <= theirs.sum() + 0.01 * SAMPLES
