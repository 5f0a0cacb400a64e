"""The paper's numbers, as data: `paper_results.toml`."""

from __future__ import annotations

import importlib
import math
import sys
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

tomllib: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


class Printed(NamedTuple):
    """A figure of the paper's, in its own unit: percent, or a factor."""

    value: float
    suspect: str | None  # why it cannot be what the column says it is


@cache
def tables() -> dict[str, Any]:
    """Return every table by our name for it."""
    text = resources.files("bilaw.recipes").joinpath("paper_results.toml").read_text(encoding="utf-8")
    held: dict[str, Any] = tomllib.loads(text)
    return held


def printed(table: str, row: str, column: str, metric: str) -> Printed | None:
    """Return what the paper prints there, `column` being DATA/MODEL/NORM/EPS; None where it prints nothing.

    >>> printed("mnist", "at", "mnist/fc1/l2/0.3", "clean")
    Printed(value=8.8, suspect='clean accuracy is below chance, and below the robust one')
    """
    held = tables().get(table)
    if not held or row not in held["rows"] or column not in held["columns"] or metric not in held["metrics"]:
        return None
    value = float(held["rows"][row][held["columns"].index(column)][held["metrics"].index(metric)])
    return None if math.isnan(value) else Printed(value, _suspect(held, row, column, metric))


def _suspect(held: dict[str, Any], row: str, column: str, metric: str) -> str | None:
    for one in held.get("suspect", ()):
        place = ((row, one["row"]), (column, one["column"]), (metric, one["metric"]))
        if all(fnmatchcase(name, pattern) for name, pattern in place):
            return str(one["why"])
    return None
