"""Every member of SCHEMES with each of its settings, and something for it to weigh.

A member whose constructor takes `features` or `margin_from` appears once for every row of those tables.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from itertools import product

import torch

from bilaw.types import Adversarial, Terms
from bilaw.weighting import FEATURES, SCHEMES, Learned, Omega, WeightNet
from bilaw.weighting.features import POINTS, width

K = 10  # iterations of the attack
CLASSES = 4
CHOICES = {"features": FEATURES, "margin_from": POINTS}


@dataclass(frozen=True)
class Case:
    name: str
    settings: tuple[tuple[str, str], ...]

    def __str__(self):
        return "-".join([self.name, *(value for _, value in self.settings)])

    def build(self, classes=CLASSES, dtype=torch.float64, seed=0):
        settings = dict(self.settings)
        if self.name == "learned":
            omega = an_omega(classes, dtype, seed, **settings)
            return Learned(omega, torch.optim.SGD(omega.network.parameters(), lr=0.5))
        if self.name == "pretrained":
            return an_omega(classes, dtype, seed, **settings)
        return SCHEMES[self.name](**settings)


def an_omega(classes=CLASSES, dtype=torch.float64, seed=0, hidden=(16,), features="multiclass-margin", **settings):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = WeightNet(width(features, classes), hidden).to(dtype)
    return Omega(network, features=features, **settings)


def cases():
    for name, scheme in SCHEMES.items():
        signature = inspect.signature(Omega if name == "learned" else scheme)
        names = [name for name in CHOICES if name in signature.parameters]
        for values in product(*(CHOICES[name] for name in names)):
            yield Case(name, tuple(zip(names, values, strict=True)))


CASES = list(cases())


def situation(size=6, classes=CLASSES, seed=0, dtype=torch.float64, theta=None):
    """Return the terms, the attack's finding and labels of a random batch; `theta` scales all that is computed."""
    generator = torch.Generator().manual_seed(seed)
    theta = torch.ones((), dtype=dtype) if theta is None else theta

    def draw(*shape):
        return theta * 2 * torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    logits, logits_adv = draw(size, classes), draw(size, classes)
    terms = Terms(fixed=draw(size).abs(), robust=draw(size).abs(), logits=logits, logits_adv=logits_adv)
    y = torch.randint(classes, (size,), generator=generator)
    survived = torch.randint(K + 1, (size,), generator=generator)
    x = torch.rand(size, 1, 2, 2, generator=generator, dtype=torch.float64).to(dtype)
    return terms, Adversarial(x, survived, K), y


def reorder(at, terms, adversarial, y):
    survived, x = adversarial.survived[at], adversarial.x[at]
    return Terms(*(part[at] for part in terms)), Adversarial(x, survived, adversarial.steps), y[at]
