"""A part of CIFAR-10 small enough to train Small-CNN on without a GPU, as `--data.name benchmarks.subset:cifar10`."""

from __future__ import annotations

import torch

from bilaw.datasets.data import Dataset, take
from bilaw.datasets.table import load

TRAIN = 6_000


def cifar10() -> Dataset:
    """Return the first 6,000 training images and the whole test half."""
    data = load("cifar-10")
    return data._replace(train=take(data.train, torch.arange(TRAIN)))
