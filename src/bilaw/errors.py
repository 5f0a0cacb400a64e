"""How bad input is refused: the setting, the value, and what would be accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


def refuse(setting: str, value: object, accepted: str) -> NoReturn:
    """Raise the one kind of error that bad input gets.

    >>> refuse("eps", -1, "a number >= 0")
    Traceback (most recent call last):
    ValueError: eps = -1 is not accepted; it takes a number >= 0
    """
    raise ValueError(f"{setting} = {value!r} is not accepted; it takes {accepted}")


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a closing hint naming the nearest valid name, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def look_up(setting: str, name: Any, table: Mapping[str, T]) -> T:
    """Return `table[name]`, refusing an unknown name with the nearest known one.

    >>> look_up("loss", "trade", {"trades": 1, "mart": 2})
    Traceback (most recent call last):
    ValueError: loss = 'trade' is not accepted; it takes one of mart, trades (did you mean 'trades'?)
    """
    if isinstance(name, str) and name in table:
        return table[name]
    return refuse(setting, name, f"one of {', '.join(sorted(table))}{nearest(str(name), table)}")
