"""What a table's entry takes of the settings: its signature says so, and nothing lists it twice."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bilaw.errors import look_up, refuse

Make = Callable[..., Any]


def taken(make: Make, offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the `offered` arguments that `make` takes by name.

    >>> taken(lambda eps, steps=3: None, {"eps": 0.1, "norm": "l2"})
    {'eps': 0.1}
    """
    return {name: value for name, value in offered.items() if takes(make, name)}


def takes(make: Make, name: str) -> bool:
    """Tell whether `make` takes an argument of that name."""
    parameters = inspect.signature(make).parameters
    return any(p.kind is p.VAR_KEYWORD or (p.name == name and _by_name(p)) for p in parameters.values())


def lacks(make: Make, offered: Iterable[str]) -> list[str]:
    """Return what `make` cannot do without and is not `offered`."""
    parameters, known = inspect.signature(make).parameters.values(), set(offered)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return [p.name for p in needed if p.name not in known or not _by_name(p)]


def check_entry(setting: str, name: str, table: Mapping[str, Make], offered: Iterable[str]) -> None:
    """Refuse a name that the table lacks, or whose entry cannot be made of the settings alone."""
    known = sorted(offered)
    if missing := lacks(look_up(setting, name, table), known):
        refuse(setting, name, f"one that can be made of the settings {', '.join(known)}; this needs {missing[0]}")


def _by_name(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
