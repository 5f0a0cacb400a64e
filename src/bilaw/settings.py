"""A `Config` as text: TOML files, and values from the command line.

A setting's name is dotted, `attack.eps`: `eps` under `[attack]` in TOML, `--attack.eps` as a flag. Every value comes
in by one door, `override`, as text or as a TOML value: floats may be fractions (`8/255`), None is written `auto`,
tuples are arrays or comma lists. Names and types are those of the dataclasses in config.py; nothing is listed twice.
"""

from __future__ import annotations

import difflib
import importlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, replace
from functools import cache, reduce
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import tomli_w

from bilaw.config import Config
from bilaw.errors import Refused, refuse

# The same parser under two names: Python 3.11 took tomli in.
tomllib: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

HEADER = """\
# Settings of a bilaw run, every one of them: `bilaw train --config THIS_FILE` repeats it.
# "auto" leaves a setting to bilaw; numbers may be fractions in quotes, such as "8/255".
"""


class Setting(NamedTuple):
    """One setting: what it is called, what it takes, what it is for."""

    name: str  # dotted
    kind: type  # str, int, float or bool: of the value, or of a tuple's items
    many: bool  # a tuple
    auto: bool  # may be None
    default: Any
    meaning: str


class Group(NamedTuple):
    """The settings of one table."""

    meaning: str
    settings: tuple[Setting, ...]


@cache
def groups() -> dict[str, Group]:
    """Return the groups by name; what stands above all tables (the seed) is in group "".

    >>> [setting.name for setting in groups()["model"].settings]
    ['model.name', 'model.weights']
    """
    hints, found = get_type_hints(Config), {"": Group("", ())}
    for part in fields(Config):
        if part.metadata:
            top = found[""]
            found[""] = top._replace(settings=(*top.settings, _setting(part.name, part, hints[part.name])))
        else:
            kind = hints[part.name]
            inner = get_type_hints(kind)
            members = (_setting(f"{part.name}.{f.name}", f, inner[f.name]) for f in fields(kind))
            found[part.name] = Group((kind.__doc__ or "").strip(), tuple(members))
    return found


@cache
def settings() -> dict[str, Setting]:
    """Return every setting by its dotted name.

    >>> settings()["attack.eps"].kind, settings()["attack.start"].auto
    (<class 'float'>, True)
    """
    return {setting.name: setting for group in groups().values() for setting in group.settings}


def _setting(name: str, part: Field[Any], hint: Any) -> Setting:
    auto = type(None) in get_args(hint)
    if auto:
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
    many = get_origin(hint) is tuple
    return Setting(name, get_args(hint)[0] if many else hint, many, auto, part.default, part.metadata["help"])


def override(config: Config, values: Mapping[str, Any]) -> Config:
    """Return `config` with `values`, text or TOML values by dotted name, checked together once all are in.

    >>> override(Config(), {"attack.eps": "8/255", "scheme.hidden": "64,64"}).scheme.hidden
    (64, 64)
    >>> override(Config(), {"atack.eps": 0.1})
    Traceback (most recent call last):
    bilaw.errors.Refused: there is no setting atack.eps (did you mean attack.eps?)
    """
    changes: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        group, _, key = name.rpartition(".")
        changes.setdefault(group, {})[key] = read(find(name), value)
    top = changes.pop("", {})
    return replace(config, **top, **{group: replace(getattr(config, group), **new) for group, new in changes.items()})


def find(name: str) -> Setting:
    """Return the setting of that name, refusing an unknown one with the nearest there is."""
    if name not in settings():
        raise Refused(f"there is no setting {name}{did_you_mean(name, settings())}")
    return settings()[name]


def did_you_mean(name: str, known: Mapping[str, Any], prefix: str = "") -> str:
    """Return a closing hint: names with the same last word first, for `--eps` means `--attack.eps`.

    >>> did_you_mean("lr", settings()), did_you_mean("attack.epz", settings(), prefix="--")
    (' (did you mean scheme.lr or optim.lr?)', ' (did you mean --attack.eps?)')
    """
    last, words = name.rpartition(".")[2], {other: other.rpartition(".")[2] for other in known}
    close = difflib.get_close_matches(name, known, n=1)
    if not close or words[close[0]] != last:
        close = [other for other in known if words[other] == last][:3] or close
    if not close and (word := difflib.get_close_matches(last, words.values(), n=1)):
        close = [other for other in known if words[other] == word[0]][:3]
    return f" (did you mean {' or '.join(prefix + other for other in close)}?)" if close else ""


def read(setting: Setting, value: Any) -> Any:
    """Return `value`, text or a TOML value, as the setting's own type.

    >>> read(settings()["attack.eps"], "1/4"), read(settings()["log.to"], "none")
    (0.25, ())
    """
    if setting.auto and value == "auto":
        return None
    if not setting.many:
        return _read_one(setting, value, value)
    if isinstance(value, str):
        value = [] if value.strip() in ("", "none") else [item.strip() for item in value.split(",")]
    if not isinstance(value, list):
        refuse(setting.name, value, accepted(setting))
    return tuple(_read_one(setting, item, value) for item in value)


def _read_one(setting: Setting, value: Any, whole: Any) -> Any:
    if type(value) is setting.kind:  # not isinstance: true is no number
        return value
    if setting.kind is float and type(value) is int:
        value = str(value)
    if isinstance(value, str):
        try:
            return READERS[setting.kind](value)
        except (ValueError, KeyError, OverflowError, ZeroDivisionError):
            pass
    return refuse(setting.name, whole, accepted(setting))


def number_or_fraction(name: str, text: str) -> float:
    """Return a number typed as such or as a fraction.

    >>> number_or_fraction("--eps", "8/255") == 8 / 255
    True
    """
    try:
        return _fraction(text)
    except (ValueError, OverflowError, ZeroDivisionError):
        return refuse(name, text, ACCEPTED[float])


def _fraction(text: str) -> float:
    above, bar, below = text.partition("/")
    value = float(above) / float(below) if bar else float(above)
    if not math.isfinite(value):
        raise ValueError
    return value


READERS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: _fraction,
    bool: lambda text: {"true": True, "false": False}[text.lower()],
}
ACCEPTED: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a finite number, or a fraction such as 8/255",
    bool: "true or false",
}


def accepted(setting: Setting) -> str:
    """Return in words what the setting takes.

    >>> accepted(settings()["data.augment"]), accepted(settings()["scheme.hidden"])
    ('true or false, or auto', 'a list such as 64,64 (or none), each a whole number')
    """
    if setting.many:
        example = "64,64" if setting.kind is int else "a,b"
        return f"a list such as {example} (or none), each {ACCEPTED[setting.kind]}"
    return ACCEPTED[setting.kind] + (", or auto" if setting.auto else "")


def values_of(config: Config) -> dict[str, Any]:
    """Return every setting's value by its dotted name, seed first."""
    return {name: reduce(getattr, name.split("."), config) for name in settings()}


def to_toml(config: Config) -> str:
    """Return the configuration as TOML, each setting with what it is for; `from_toml` is its inverse."""
    values, blocks = values_of(config), []
    for name, group in groups().items():
        lines = [f"# {group.meaning}", f"[{name}]"] if name else [HEADER]
        for setting in group.settings:
            key = setting.name.rpartition(".")[2]
            lines.append(f"{key} = {_written(setting, values[setting.name])}  # {setting.meaning}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _written(setting: Setting, value: Any) -> str:
    if setting.many:
        return f"[{', '.join(_written(setting._replace(many=False), item) for item in value)}]"
    if value is None:
        value = "auto"
    elif setting.kind is float:
        value = float(value)  # 1 in Python, 1.0 in the file
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def from_toml(text: str) -> Config:
    """Return the configuration that TOML text describes; what it leaves out has its default.

    >>> from_toml('seed = 3\\n[attack]\\neps = "8/255"').attack.eps == 8 / 255
    True
    """
    return override(Config(), parse(text))


def parse(text: str) -> dict[str, Any]:
    """Return TOML text as values by dotted name, every name known, no value read yet."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"not TOML: {error}") from None
    except RecursionError:
        raise Refused("not TOML for settings: nested too deep") from None
    values = {}
    for name, value in tables.items():
        if isinstance(value, dict) and name not in settings():
            if not name or name not in groups():
                raise Refused(f"there is no table [{name}]{did_you_mean(name, dict.fromkeys(groups()))}")
            values.update({f"{name}.{key}": item for key, item in value.items()})
        elif name in groups():
            refuse(name, value, f"a table: [{name}], and its settings below")
        else:
            values[name] = value
    for name in values:
        find(name)
    return values


def parse_file(path: Path) -> dict[str, Any]:
    """Return the values in a TOML file by dotted name; every message says which file."""
    try:
        return parse(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        return refuse("--config", str(path), f"a readable TOML file ({error.strerror or error})")
    except UnicodeDecodeError:
        return refuse("--config", str(path), "a TOML file, which is UTF-8 text")
    except ValueError as error:
        raise Refused(f"{path}: {error}") from None
