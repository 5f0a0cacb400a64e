"""Small runs on digits, evaluated, for figures and pages; and data sets of odd shapes."""

from pathlib import Path

import numpy as np

from bilaw.analysis import study
from bilaw.config import ComputeConfig, Config
from bilaw.datasets.table import load
from bilaw.evaluation.evaluate import evaluate
from bilaw.models import build
from bilaw.models.weights import load_weights
from bilaw.recipes.methods import method
from bilaw.settings import override
from bilaw.training.fit import fit

EPS = 0.1
QUICK = {
    "optim.epochs": "4",
    "optim.batch": "64",
    "attack.steps": "2",
    "attack.eps": str(EPS),
    "select.steps": "1",
    "meta.batch": "32",
    "scheme.lr": "0.01",
    "log.to": "none",
    "compute.threads": "1",
    "compute.device": "cpu",
}
CPU = ComputeConfig(device="cpu", threads=1)
SAMPLES = 200


def train(folder, name="trades", model="fc1", **settings):
    told = {**QUICK, **{key.replace("__", "."): value for key, value in settings.items()}}
    if name in ("trades", "plain", "at"):
        told.pop("scheme.lr"), told.pop("meta.batch")
    fit(model, settings.get("data__name", "digits"), override(method(name, Config()), told), run=folder)
    return folder


def judge(folder, out=None, samples=SAMPLES, attacks=("pgd-5",), audit=10, data="digits", model="fc1"):
    """As `bilaw evaluate` does, with fewer steps."""
    held = load(str(data))
    half = held.test if held.test is not None else held.train
    net = build(model, tuple(half.x.shape[1:]), len(held.classes), seed=0)
    load_weights(net, Path(folder) / "best.safetensors")
    out = out or Path(folder) / "evaluation"
    return evaluate(net, str(data), eps=EPS, attacks=attacks, samples=samples, audit=audit, compute=CPU, out=out)


def read(folder, **more):
    return study(folder, compute=CPU, **more)


def npz(path, classes, train_each, test_labels, size=4, seed=0):
    """Noisy pictures, one for each class, in a file."""
    drawn = np.random.default_rng(seed)
    pictures = drawn.integers(40, 216, (classes, size, size))

    def of(y):
        return np.clip(pictures[y] + drawn.integers(-30, 31, (len(y), size, size)), 0, 255).astype(np.uint8)

    y_train = np.arange(classes * train_each) % classes
    y_test = np.asarray(test_labels)
    np.savez(path, x_train=of(y_train), y_train=y_train, x_test=of(y_test), y_test=y_test)
    return path
