"""Parts of CIFAR-10 small enough to train Small-CNN on without a GPU, as `--data.name benchmarks.subset:cifar10`."""

from __future__ import annotations

import torch

from bilaw.datasets.data import Dataset, take
from bilaw.datasets.table import load

TRAIN = 6_000


def cifar10(samples: int = TRAIN) -> Dataset:
    """Return the first 6,000 training images and the whole test half."""
    data = load("cifar-10")
    return data._replace(train=take(data.train, torch.arange(samples)))


def quarter() -> Dataset:
    """Return 1,500 training images: for `make bench-quick`, where any trained network serves."""
    return cifar10(1_500)
