"""The data sets by name. A new one is a file with a `load(root)` and a line here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bilaw.datasets import digits
from bilaw.datasets.data import Dataset
from bilaw.errors import look_up

DATASETS: dict[str, Callable[[Path | str | None], Dataset]] = {
    "digits": digits.load,
}


def load(name: str, root: Path | str | None = None) -> Dataset:
    """Return the data set called `name`, from the cache folder `root` (None: the usual one)."""
    return look_up("data", name, DATASETS)(root)
