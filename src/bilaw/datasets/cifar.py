"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): colour images of 32 x 32, read from the binary version, not from pickles.

A record is one label byte (CIFAR-100: the coarse label, then the fine one) and 3,072 bytes of planes R, G, B.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from bilaw.datasets.cache import content
from bilaw.datasets.data import Dataset, Images
from bilaw.datasets.known import CIFAR_10, CIFAR_100
from bilaw.errors import refuse

PIXELS = 3 * 32 * 32
CLASSES_10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FINE = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""
CLASSES_100 = tuple(FINE.split())  # the fine labels, in the order of fine_label_names.txt


def load_10(root: Path | str | None = None) -> Dataset:
    """Return CIFAR-10 from the cache folder."""
    *train, test = content(CIFAR_10, root)
    halves = (read(train, 1, CLASSES_10, "cifar-10 train"), read([test], 1, CLASSES_10, "cifar-10 test"))
    return Dataset("cifar-10", *halves, CLASSES_10, augment=True)


def load_100(root: Path | str | None = None) -> Dataset:
    """Return CIFAR-100 with its 100 fine labels from the cache folder."""
    train, test = content(CIFAR_100, root)
    halves = (read([train], 2, CLASSES_100, "cifar-100 train"), read([test], 2, CLASSES_100, "cifar-100 test"))
    return Dataset("cifar-100", *halves, CLASSES_100, augment=True)


def read(files: Sequence[bytearray], labels: int, classes: Sequence[str], where: str = "CIFAR") -> Images:
    """Return the images of binary files with `labels` label bytes a record, of which the last one counts."""
    record = labels + PIXELS
    for raw in files:
        if not raw or len(raw) % record:
            refuse(where, f"{len(raw)} bytes", f"one or more records of {record} bytes")
    rows = torch.cat([torch.frombuffer(raw, dtype=torch.uint8).view(-1, record) for raw in files])
    y = rows[:, labels - 1].long()
    if int(y.max()) >= len(classes):
        refuse(f"{where} labels", int(y.max()), f"labels in 0..{len(classes) - 1}")
    return Images(rows[:, labels:].reshape(-1, 3, 32, 32), y)
