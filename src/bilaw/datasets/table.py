"""The data sets by name. A new one is a file with a `load(root)` and a line here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bilaw.datasets import cifar, digits, folder, mnist, npz
from bilaw.datasets.data import Dataset
from bilaw.datasets.own import as_dataset
from bilaw.errors import nearest, reason, refuse
from bilaw.imports import find

DATASETS: dict[str, Callable[[Path | str | None], Dataset]] = {
    "digits": digits.load,
    "mnist": mnist.load,
    "fashion-mnist": mnist.load_fashion,
    "cifar-10": cifar.load_10,
    "cifar-100": cifar.load_100,
}
OWN = "an .npz file, a folder of images, or your own as module:function"


def load(name: str, root: Path | str | None = None) -> Dataset:
    """Return the data set called `name`: one of the table, an .npz file, a folder of images, or module:function.

    `root` is the cache folder of the downloaded ones (None: the usual one).
    """
    if name in DATASETS:
        return DATASETS[name](root)
    path = Path(name).expanduser()
    try:
        path.exists()
    except OSError as error:
        refuse("data", name, f"a name or a path that can be looked up ({error.strerror})")
    if path.is_dir():
        return folder.load(path)
    if path.is_file():
        if path.suffix.lower() != ".npz":
            refuse("data", name, f"{OWN}; of files, .npz alone")
        return npz.load(path)
    if path.suffix.lower() == ".npz" or path.parent != Path() or name.startswith("~"):
        refuse(
            "data",
            name,
            f"a path that exists (looked in {Path.cwd()})" if not path.is_absolute() else "a path that exists",
        )
    if ":" in name:
        return _made(name, root)
    return refuse("data", name, f"one of {', '.join(sorted(DATASETS))}{nearest(name, DATASETS)}; or {OWN}")


def _made(name: str, root: Path | str | None) -> Dataset:
    """Return the data set that the user's function makes."""
    make = find("data", name)
    if not callable(make):
        return as_dataset(make, name)
    arguments: dict[str, Any] = {"root": root} if "root" in _parameters(make) else {}
    try:
        made = make(**arguments)
    except (Exception, SystemExit) as error:  # whatever the user's function raises
        refuse("data", name, f"a function that succeeds ({reason(error)})")
    return as_dataset(made, name)


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:  # some builtins tell nothing
        return []
