"""The user's own .npz file, and any mapping with the same keys: x_train, y_train, x_test, y_test as Keras has them."""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from bilaw.datasets.arrays import from_arrays
from bilaw.datasets.data import Dataset
from bilaw.datasets.labels import join
from bilaw.errors import refuse

IMAGES = ("x", "images", "image", "data")
LABELS = ("y", "labels", "label", "targets", "target")
TRAIN, TEST, WHOLE = ("train",), ("test", "val", "valid"), ("",)
KEYS = "x_train, y_train and perhaps x_test, y_test; or x, y (images, labels do as well)"
MEMORY_SHARE = 0.5  # of this machine's memory that a file's arrays may fill

Names = tuple[str, str]  # of the images and the labels


def load(path: Path) -> Dataset:
    """Return the data set in an .npz file; no pickle is ever loaded, and no array larger than the memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
            train, test = halves(members, str(path))
            size = sum(_size(archive, f"{name}.npy", path) for name in (*train, *(test or ())))
            if size > (limit := _memory() * MEMORY_SHARE):
                most = f"{limit / 2**30:.1f} GiB, half of this machine's memory"
                refuse(
                    "data",
                    f"{path}, {size / 2**30:.1f} GiB",
                    f"arrays of at most {most}; an image folder may be larger",
                )
        with np.load(path, allow_pickle=False) as held:
            return from_mapping({name: held[name] for name in (*train, *(test or ()))}, path.stem)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        refuse("data", str(path), f"an .npz file that is whole ({error})")


def from_mapping(held: Mapping[str, Any], name: str) -> Dataset:
    """Return the data set in a mapping of arrays."""
    train, test = halves(held, name)
    first = from_arrays(held[train[0]], held[train[1]], "train")
    second = from_arrays(held[test[0]], held[test[1]], "test") if test else None
    return join(name, first, second)


def halves(keys: Iterable[str], where: str) -> tuple[Names, Names | None]:
    """Return which keys are the training images and labels, and which the test half's.

    >>> halves(["x_train", "y_train", "test_images", "test_labels"], "mine.npz")
    (('x_train', 'y_train'), ('test_images', 'test_labels'))
    """
    keys = sorted(keys)
    train, test = _named(keys, TRAIN), _named(keys, TEST)
    if train is None and test is None:
        train = _named(keys, WHOLE)
    if train is None:
        refuse("data", where, f"arrays called {KEYS} (it has {', '.join(keys) or 'none'})")
    return train, test


def _named(keys: list[str], which: tuple[str, ...]) -> Names | None:
    """Return the pair of keys, in either order of words, that names the images and labels of a half."""
    plain = {key.lower(): key for key in keys}
    for part in which:
        pair = []
        for words in (IMAGES, LABELS):
            names = [name for word in words for name in ((f"{word}_{part}", f"{part}_{word}") if part else (word,))]
            pair += [plain[name] for name in names if name in plain][:1]
        if len(pair) == 2:
            return pair[0], pair[1]
    return None


def _size(archive: zipfile.ZipFile, member: str, path: Path) -> int:
    """Return the bytes of an array by its header, refusing one that promises what the file does not hold."""
    where = f"{member.removesuffix('.npy')} in {path}"
    with archive.open(member) as stream:
        try:
            version = npy.read_magic(stream)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = header(stream)
        except Exception as error:  # numpy raises many kinds, all about the header
            refuse("data", where, f"an array that is whole ({error})")
        start = stream.tell()
    if dtype.hasobject:
        refuse("data", where, "an array of numbers: Python objects are never loaded from a file")
    size = math.prod(shape) * dtype.itemsize
    if (found := archive.getinfo(member).file_size) != start + size:
        refuse("data", where, f"an array that is whole: {start + size} bytes, not {found}")
    return size


def _memory() -> float:
    """Return the bytes of memory this machine has; endless where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
