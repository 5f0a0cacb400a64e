"""What a run eats: training and meta batches, and the *select* split it is judged on."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import torch

from bilaw.config import Config
from bilaw.datasets.batches import Batches
from bilaw.datasets.data import Images, Lazy, Samples, take
from bilaw.datasets.splits import Split, about_sizes, split
from bilaw.datasets.stores import Kept, store


class Feed(NamedTuple):
    """Batches of the two splits that are learned from, and the images of the third."""

    parts: Split
    train: Batches
    meta: Batches | None  # None: nothing learns from it
    select: Images  # on the device
    notes: list[str]  # on what was held out


def feed(samples: Samples, classes: int, augment: bool, config: Config, device: torch.device | str) -> Feed:
    """Split the training half and return its parts, ready to use on `device`.

    Methods without a meta set train on its samples. Held-out batches are not augmented: they stand for test data.
    """
    data, optim, learns = config.data, config.optim, config.scheme.learns
    parts = split(samples.y, classes, data.meta if learns else 0, data.select, data.split_seed, data.train)
    sizes = [data.select, *([data.meta] if learns else [])]
    notes = about_sizes(samples.y, classes, learns) if None in sizes else []
    held = store(samples, device)
    augment = augment if data.augment is None else data.augment
    train = Batches(held, parts.train, size=optim.batch, seed=config.seed, purpose="train", augment=augment)
    select = Images(*(part.to(device) for part in take(samples, parts.select)))
    if not learns:
        return Feed(parts, train, None, select, notes)
    size = min(config.meta.batch, len(parts.meta))
    # A streamed set is read ahead for training; the meta set, small and asked for every step, is read once.
    source = Kept(samples, parts.meta, device) if held.prefetch else held
    meta = Batches(source, parts.meta, size=size, seed=config.seed, purpose="meta", least=size)
    return Feed(parts, train, meta, select, notes)


def digest(samples: Samples) -> str:
    """Return a hash of the data, so that a run does not go on with others: of a `Lazy` set, the labels alone."""
    hashed = hashlib.blake2b(samples.y.cpu().contiguous().numpy().tobytes(), digest_size=16)
    if isinstance(samples, Lazy):
        hashed.update(str(samples.shape).encode())
    else:
        hashed.update(str((samples.x.dtype, tuple(samples.x.shape))).encode())
        pixels = samples.x.cpu().contiguous().view(-1).view(torch.uint8).numpy()
        hashed.update(pixels.data)
    return hashed.hexdigest()
