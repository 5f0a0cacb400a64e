"""Digits: 1,797 grey images of 8 x 8 that come with the package, so that everything runs offline.

The test half of the UCI set "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak, 1998;
doi 10.24432/C50P49, licence CC BY 4.0), in scikit-learn's order. Its pixels 0..16 are stored as
round(v * 255 / 16); `scripts/make_digits.py` wrote the file.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from bilaw.datasets.data import Dataset, Images
from bilaw.datasets.splits import quotas, shuffled_class

CLASSES = tuple("0123456789")
TEST_SIZE = 450  # 45 of each digit
TEST_SEED = 0  # the set has no canonical halves; this one is fixed for good, whatever the run's seed


def load(root: Path | str | None = None) -> Dataset:
    """Return digits with its fixed test half.

    >>> digits = load()
    >>> digits.train.x.shape, digits.test.y.bincount().tolist()
    (torch.Size([1347, 1, 8, 8]), [45, 45, 45, 45, 45, 45, 45, 45, 45, 45])
    """
    with (
        files("bilaw.datasets").joinpath("digits.npz").open("rb") as stream,
        np.load(stream, allow_pickle=False) as held,
    ):
        x = torch.from_numpy(held["x"]).unsqueeze(1)
        y = torch.from_numpy(held["y"]).long()
    share = quotas(TEST_SIZE, len(CLASSES), TEST_SEED, "test")
    picked = [shuffled_class(y, c, TEST_SEED)[: int(share[c])] for c in range(len(CLASSES))]
    is_test = torch.zeros(len(y), dtype=torch.bool)
    is_test[torch.cat(picked)] = True
    halves = (Images(x[~is_test], y[~is_test]), Images(x[is_test], y[is_test]))
    return Dataset("digits", *halves, CLASSES, augment=False)
