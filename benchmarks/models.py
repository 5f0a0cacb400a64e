"""Trained classifiers for the attacks to work on: made once through bilaw itself, kept under build/bench.

Tiny-CNN on Fashion-MNIST by PGD-10, Small-CNN on 6,000 images of CIFAR-10 by F-FGSM; with `--quick` Tiny-CNN by F-FGSM
and Small-CNN plainly, on 1,500. Seeds are fixed, so the same machine makes the same models. A finished run of your own
serves instead: `--run FOLDER`. The attacks' eps is chosen so that about `SHARE` of the correctly classified samples
survive PGD-20.

    python benchmarks/models.py     # trains both, if they are not there
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bilaw.attacks import PGD
from bilaw.datasets.augment import to_unit
from bilaw.datasets.data import shape_of, take
from bilaw.datasets.table import load
from bilaw.models.own import load_model
from bilaw.models.weights import load_weights
from bilaw.rng import generator
from bilaw.runs import Run
from bilaw.types import Batch

ROOT = Path(__file__).resolve().parents[1]
BILAW = str(Path(sys.executable).with_name("bilaw"))
KEPT = ROOT / "build/bench"
SHARE = 0.75  # AutoAttack breaks some more than PGD-20
EPS = tuple(i / 510 for i in range(1, 65))

FASHION = ["--data.name", "fashion-mnist", "--attack.eps", "0.1"]
FAST = ["--attack.name", "f-fgsm", "--optim.schedule", "one-cycle"]
RECIPES = {
    ("tiny-cnn", False): [*FASHION, "--optim.epochs", "6"],
    ("tiny-cnn", True): [*FASHION, *FAST, "--optim.epochs", "1"],
    ("small-cnn", False): ["--data.name", "benchmarks.subset:cifar10", *FAST, "--optim.epochs", "8"],
    ("small-cnn", True): ["--data.name", "benchmarks.subset:quarter", "--loss.name", "plain", "--optim.epochs", "3"],
}
SMALL = ["--attack.eps", "8/255", "--optim.lr", "0.05"]
COMMON = ["--log.to", "", "--log.weights_every", "0", "--select.steps", "5", "--data.select", "200"]
NEEDS = {"tiny-cnn": "fashion-mnist", "small-cnn": "cifar-10"}


class Trained(NamedTuple):
    """A classifier in eval mode, as a user has it (its parameters take gradients), and samples that it gets right."""

    module: nn.Module
    x: Tensor
    y: Tensor
    classes: int


def path_of(name: str, quick: bool, run: str | None = None) -> str:
    """Return the folder of a finished run, which is trained if nobody has."""
    if run:
        return str(Path(run).resolve())
    folder = KEPT / (f"{name}-quick" if quick else name)
    if not (folder.is_dir() and Run(folder).status().state == "finished"):
        more = ["--resume", str(folder)] if folder.is_dir() else []
        recipe = [*RECIPES[name, quick], *(SMALL if name == "small-cnn" else ()), *COMMON]
        fresh = ["--method", "at", "--model.name", name, *recipe, "--run", str(folder)]
        print(f"training {name} for the benchmarks", file=sys.stderr, flush=True)
        subprocess.run([BILAW, "train", *(more or fresh)], check=True, cwd=ROOT)
    return str(folder)


def trained(path: str, samples: int) -> Trained:
    """Return a run's best classifier and the first `samples` test images that it gets right."""
    os.chdir(ROOT)  # the run's data may be benchmarks.subset's
    run = Run(Path(path))
    config = run.config()
    data = load(config.data.name, config.data.root)
    assert data.test is not None, "the data set has no test half"
    module = load_model(config.model.name, shape_of(data.test), len(data.classes), config.seed)
    load_weights(module, run.best)
    module.eval()
    x, y = to_unit(data.test.x[:0]), data.test.y[:0]
    for part in torch.arange(len(data.test.y)).split(250):
        more = take(data.test, part)
        answered = answers(module, to_unit(more.x)) == more.y
        x, y = torch.cat([x, to_unit(more.x)[answered]]), torch.cat([y, more.y[answered]])
        if len(y) >= samples:
            return Trained(module, x[:samples], y[:samples], len(data.classes))
    raise SystemExit(f"{path}: only {len(y)} images of the test half are classified correctly, {samples} are needed")


@torch.no_grad()
def answers(module: nn.Module, x: Tensor) -> Tensor:
    """Return the classes that the module sees."""
    return torch.cat([module(part).argmax(dim=1) for part in x.split(250)])


def fitting_eps(subject: Trained, norm: str = "linf", share: float = SHARE, most: int = 250) -> float:
    """Return the first radius at which no more than `share` of the samples survive PGD-20, found by halving."""
    x, y = subject.x[:most], subject.y[:most]
    longer = 1.0 if norm == "linf" else (x[0].numel() / 12) ** 0.5  # an l2 ball that is about as hard
    batch = Batch(x, y, torch.arange(len(x)))
    low, high = 0, len(EPS) - 1
    while low < high:
        middle = (low + high) // 2
        found = PGD(longer * EPS[middle], norm, steps=20)(subject.module, batch, generator(0, "eps"))
        robust = float((answers(subject.module, found.x) == y).double().mean())
        low, high = (low, middle) if robust <= share else (middle + 1, high)
    return longer * EPS[low]


def main() -> None:
    for name in NEEDS:
        print(path_of(name, quick="--quick" in sys.argv))


if __name__ == "__main__":
    main()
