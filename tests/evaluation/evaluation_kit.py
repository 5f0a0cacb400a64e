"""A small honest classifier, digits to judge it on, and attacks cheap enough for many evaluations."""

import torch
from torch import nn

from bilaw.attacks.autoattack import APGD, FAB, Square
from bilaw.config import Config
from bilaw.datasets.data import Images
from bilaw.datasets.table import load
from bilaw.evaluation import suites
from bilaw.settings import override
from bilaw.training.fit import fit
from bilaw.weighting import Omega, WeightNet

EPS = 0.1
QUICK = {
    "optim.epochs": "10",
    "optim.batch": "64",
    "attack.steps": "3",
    "select.steps": "1",
    "select.every": "10",
    "log.to": "none",
    "compute.threads": "1",
    "compute.device": "cpu",
}


def config(**settings):
    return override(Config(), {**QUICK, **{name.replace("__", "."): value for name, value in settings.items()}})


def train():
    """An adversarially trained network of one hidden layer, robust enough for most samples at EPS."""
    return fit("fc1", "digits", config()).model.eval()


def digits(n=60):
    """The first test digits, as floats."""
    test = load("digits").test
    return Images(test.x[:n].float() / 255, test.y[:n])


def omega(seed=0, classes=10, **more):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return Omega(WeightNet(classes, (8,)), **more)


def cheap_autoattack(eps, norm="linf"):
    return {
        "apgd-ce": APGD(eps, norm, "ce", 10),
        "apgd-t": APGD(eps, norm, "targeted-dlr", 5, targets=2),
        "fab-t": FAB(eps, norm, steps=3, targets=2),
        "square": Square(eps, norm, queries=40),
    }


def make_cheap(patch=setattr):
    """Let AutoAttack and its components be done in a moment."""
    cheap = {name: lambda eps, norm, name=name: cheap_autoattack(eps, norm)[name] for name in cheap_autoattack(0.1)}
    patch(suites, "standard", cheap_autoattack)
    patch(suites, "SINGLE", {**suites.SINGLE, **cheap})


class Wrapped(nn.Module):
    """A module with something done to its input or its output; `counted` is how many images it has seen."""

    def __init__(self, inner, before=lambda x: x, after=lambda z: z):
        super().__init__()
        self.inner, self.before, self.after, self.counted = inner, before, after, 0

    def forward(self, x):
        self.counted += len(x)
        return self.after(self.inner(self.before(x)))
