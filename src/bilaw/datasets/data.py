"""What a data set is here: two labelled image tensors and the names of the classes."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Images(NamedTuple):
    """Labelled images held whole: uint8 0..255 (the data sets' own bytes), or floats in [0, 1]."""

    x: Tensor  # (N, channels, height, width)
    y: Tensor  # (N,) int64


class Dataset(NamedTuple):
    """A data set with its two canonical halves. Training never sees `test`."""

    name: str
    train: Images
    test: Images
    classes: tuple[str, ...]
    augment: bool  # random crop with padding 4 and random mirror while training (CIFAR, not digits)
