"""What a data set is here: labelled images, held whole or read when asked for, and the names of the classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

MEMORY_LIMIT = 2 * 2**30  # bytes: what a user's images may fill to be read once; larger sets stay where they are


class Images(NamedTuple):
    """Labelled images held whole: uint8 0..255 (the data sets' own bytes), or floats in [0, 1]."""

    x: Tensor  # (N, channels, height, width)
    y: Tensor  # (N,) int64


class Lazy(NamedTuple):
    """Labelled images that are not held: `read` gives any of them, the same each time but for a user's transforms."""

    read: Callable[[Tensor], Tensor]  # places (B,) int64 on the host -> images (B, channels, height, width)
    y: Tensor  # (N,) int64
    shape: tuple[int, int, int]  # of one image


Samples = Images | Lazy


class Half(NamedTuple):
    """The training or the test half while it is read; `join` makes a `Dataset` of two."""

    samples: Samples
    classes: tuple[str, ...] | None = None  # None: they have no names, only numbers
    notes: tuple[str, ...] = ()


class Dataset(NamedTuple):
    """A data set with its two canonical halves. Training never sees `test`."""

    name: str
    train: Samples
    test: Samples | None  # None: the user has none
    classes: tuple[str, ...]
    augment: bool  # random crop with padding 4 and random mirror while training (CIFAR, not digits)
    notes: tuple[str, ...] = ()  # what was decided while reading, for whoever reads the log


def take(samples: Samples, index: Tensor) -> Images:
    """Return the samples at `index` (int64, on the host), held whole.

    >>> import torch
    >>> held = Images(torch.arange(6).view(6, 1, 1, 1), torch.arange(6))
    >>> take(held, torch.tensor([4, 1])).y.tolist()
    [4, 1]
    """
    x = samples.x[index] if isinstance(samples, Images) else samples.read(index)
    return Images(x, samples.y[index])


def shape_of(samples: Samples) -> tuple[int, int, int]:
    """Return (channels, height, width) of one image."""
    if isinstance(samples, Lazy):
        return samples.shape
    channels, height, width = samples.x.shape[1:]
    return channels, height, width
