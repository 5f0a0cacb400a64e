"""MNIST (LeCun, Cortes, Burges 1998) and Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): grey images of 28 x 28."""

from __future__ import annotations

from pathlib import Path

from bilaw.datasets import idx
from bilaw.datasets.cache import content
from bilaw.datasets.data import Dataset, Images
from bilaw.datasets.known import FASHION_MNIST, MNIST, Known
from bilaw.errors import refuse

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def load(root: Path | str | None = None) -> Dataset:
    """Return MNIST from the cache folder."""
    return _load(MNIST, DIGITS, root)


def load_fashion(root: Path | str | None = None) -> Dataset:
    """Return Fashion-MNIST from the cache folder."""
    return _load(FASHION_MNIST, CLOTHES, root)


def read(images: bytearray, labels: bytearray, classes: int = 10, where: str = "MNIST") -> Images:
    """Return the images and labels of a pair of IDX files."""
    x, y = idx.parse(images, 3, f"{where} images"), idx.parse(labels, 1, f"{where} labels")
    if len(x) != len(y):
        refuse(f"{where} labels", len(y), f"{len(x)} of them, one for each image")
    if int(y.max()) >= classes:
        refuse(f"{where} labels", int(y.max()), f"labels in 0..{classes - 1}")
    return Images(x.unsqueeze(1), y.long())


def _load(known: Known, classes: tuple[str, ...], root: Path | str | None) -> Dataset:
    raw = content(known, root)
    train, test = (read(raw[at], raw[at + 1], len(classes), known.name) for at in (0, 2))
    return Dataset(known.name, train, test, classes, augment=False)
