"""How bad input is refused: the setting, the value, and what would be accepted."""

from __future__ import annotations

import difflib
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
MOST = 2**31 - 1  # of anything counted


class Refused(ValueError):
    """Input that is not accepted, said in one line that needs no traceback; any other error keeps its own."""


def refuse(setting: str, value: object, accepted: str) -> NoReturn:
    """Raise the one kind of error that bad input gets.

    >>> refuse("eps", -1, "a number >= 0")
    Traceback (most recent call last):
    bilaw.errors.Refused: eps = -1 is not accepted; it takes a number >= 0
    """
    raise Refused(f"{setting} = {value!r} is not accepted; it takes {accepted}")


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a closing hint naming the nearest valid name, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def look_up(setting: str, name: Any, table: Mapping[str, T]) -> T:
    """Return `table[name]`, refusing an unknown name with the nearest known one.

    >>> look_up("loss", "trade", {"trades": 1, "mart": 2})
    Traceback (most recent call last):
    bilaw.errors.Refused: loss = 'trade' is not accepted; it takes one of mart, trades (did you mean 'trades'?)
    """
    if isinstance(name, str) and name in table:
        return table[name]
    return refuse(setting, name, f"one of {', '.join(sorted(table))}{nearest(str(name), table)}")


def number(setting: str, value: Any) -> float:
    """Return `value` if it is a finite number, else refuse it."""
    if not _is_number(value):
        refuse(setting, value, "a finite number")
    return float(value)


def number_at_least(setting: str, value: Any, least: float, *, above: bool = False) -> float:
    """Return `value` if it is a finite number >= `least` (> `least` when `above`), else refuse it.

    >>> number_at_least("eps", -0.1, 0)
    Traceback (most recent call last):
    bilaw.errors.Refused: eps = -0.1 is not accepted; it takes a finite number >= 0
    """
    if not _is_number(value) or value < least or (above and value == least):
        refuse(setting, value, f"a finite number {'>' if above else '>='} {least:g}")
    return float(value)


def whole_at_least(setting: str, value: Any, least: int, most: float = MOST) -> int:
    """Return `value` if it is a whole number >= `least`, and not absurdly large, else refuse it."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        refuse(setting, value, f"a whole number >= {least}")
    if (whole := int(value)) > most:
        refuse(setting, value, f"a whole number from {least} to {most}")
    return whole


def reason(error: BaseException) -> str:
    """Return what code of the user's raised, in one line, and where in it.

    >>> reason(KeyError("no such key"))
    "KeyError: 'no such key'"
    """
    return " ".join(f"{type(error).__name__}: {error}{at(error)}".split())


def at(error: BaseException) -> str:
    """Return a closing word on where in the user's code it was raised, or nothing."""
    return f", at {place}" if (place := user_frame(error)) else ""


def user_frame(error: BaseException) -> str | None:
    """Return where it was raised, as `file:line`, if that is neither in our code nor, called by us, in a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    told = [frame for frame in frames if not frame.filename.startswith(("<", *_LIBRARIES)) or _is_ours(frame)]
    return f"{told[-1].filename}:{told[-1].lineno}" if told and not _is_ours(told[-1]) else None


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(str(Path(__file__).parent))


_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def _is_number(value: Any) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    size: Any = abs(value)
    return bool(size <= sys.float_info.max)  # false of infinities and NaN, and of integers that no float can hold
