"""Attacks that climb a quicker copy of the classifier against the same attacks on the classifier itself."""

import pytest
import torch
from attack_kit import seeded
from torch import nn
from torch.nn import functional as F

from bilaw.attacks import PGD, fast_fgsm
from bilaw.attacks.autoattack import APGD, FAB, Square
from bilaw.attacks.norms import NORMS
from bilaw.chain import Chain
from bilaw.datasets import digits
from bilaw.datasets.augment import to_unit
from bilaw.models import normalized
from bilaw.models.small_cnn import block
from bilaw.net import Net
from bilaw.types import Batch

EPS = {"linf": 0.1, "l2": 0.5}


@pytest.fixture(scope="module")
def trained():
    """Return convolutions with BatchNorm, trained on digits for some moments, and images they get right."""
    data = digits.load()
    x, y = to_unit(data.train.x), data.train.y
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net = normalized(nn.Sequential(*block(1, 8), *block(8, 16), nn.Flatten(), nn.Linear(64, 10)), [0.3], [0.4])
        attack = fast_fgsm(0.1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        for step in range(100):
            rows = torch.randint(len(y), (64,))
            found = attack(net, Batch(x[rows], y[rows], rows), seeded(step)).x
            optimizer.zero_grad()
            F.cross_entropy(net(found), y[rows]).backward()
            optimizer.step()
    net.eval().requires_grad_(False)
    images, labels = to_unit(data.test.x)[:200], data.test.y[:200]
    right = net(images).argmax(1) == labels
    return net, Batch(images[right], labels[right], right.nonzero()[:, 0])


def robust(net, batch, found, norm):
    """Return the verdicts of the module itself, as the evaluation's judge would have them."""
    assert (NORMS[norm].size(found.x - batch.x) <= EPS[norm] * (1 + 1e-5)).all()
    return net(found.x).argmax(1) == batch.y


ATTACKS = {
    "pgd": lambda norm: PGD(EPS[norm], norm, steps=20),
    "apgd-ce": lambda norm: APGD(EPS[norm], norm, "ce", steps=20),
    "apgd-t": lambda norm: APGD(EPS[norm], norm, "targeted-dlr", steps=20, targets=3),
    "fab-t": lambda norm: FAB(EPS[norm], norm, steps=20, targets=3),
    "square": lambda norm: Square(EPS[norm], norm, queries=200),
}


@pytest.mark.parametrize("norm", EPS)
@pytest.mark.parametrize("name", ATTACKS)
def test_verdicts_are_those_of_the_plain_classifier(trained, name, norm):
    net, batch = trained
    attack = ATTACKS[name](norm)
    plain = robust(net, batch, attack(lambda x: net(x), batch, seeded()), norm)
    assert 0.1 < plain.float().mean() < 0.95
    for half, apart in ((False, 0.01), (True, 0.05)):
        classifier = Net(net, bf16_attacks=half).frozen()
        assert isinstance(classifier.quick(batch.x), Chain)
        quick = robust(net, batch, attack(classifier, batch, seeded()), norm)
        assert (quick != plain).float().mean() <= apart


@pytest.mark.parametrize("norm", EPS)
def test_the_ensemble_in_bfloat16_breaks_what_it_breaks_on_the_plain_classifier(trained, norm):
    """What one attack misses for want of digits, another finds: at most one sample in a hundred is lost or won."""
    net, batch = trained
    left = {}
    for name, classifier in (("plain", lambda x: net(x)), ("bf16", Net(net, bf16_attacks=True).frozen())):
        stand = torch.ones(len(batch.y), dtype=torch.bool)
        for make in list(ATTACKS.values())[1:]:
            rows = stand.nonzero()[:, 0]
            part = Batch(*(value[rows] for value in batch))
            stand[rows] = robust(net, part, make(norm)(classifier, part, seeded()), norm)
        left[name] = stand
    assert (left["bf16"] != left["plain"]).float().mean() <= 0.01


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", ["apgd-ce", "apgd-t", "fab-t", "square"])
def test_no_row_leaves_the_batch_unless_the_module_itself_is_wrong_there(trained, name, half, monkeypatch):
    """What bfloat16 takes for broken is asked again: all rows that were let go are broken in float32."""
    net, batch = trained
    let = []
    from bilaw.attacks.autoattack.pending import Pending

    true = Pending.broke

    def noted(self, place, x):
        let.append((place.clone(), x.clone()))
        true(self, place, x)

    monkeypatch.setattr(Pending, "broke", noted)
    ATTACKS[name]("linf")(Net(net, bf16_attacks=half).frozen(), batch, seeded())
    assert let
    for place, x in let:
        assert (net(x).argmax(1) != batch.y[place]).all()


def test_pgd_on_a_chain_takes_the_steps_of_pgd_on_the_module(trained):
    net, batch = trained
    net, batch = net.double(), batch._replace(x=batch.x.double())
    attack = PGD(0.1, steps=5)
    try:
        quick, plain = (attack(f, batch, seeded()).x for f in (Net(net).frozen(), lambda x: net(x)))
        assert ((quick - plain).abs() > 1e-9).float().mean() < 1e-3
    finally:
        net.float()
