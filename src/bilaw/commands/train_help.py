"""What `bilaw train --help` prints: an overview, and a screen of 80 x 24 for each group of settings."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any

from bilaw.errors import look_up
from bilaw.recipes.methods import METHODS
from bilaw.settings import Setting, groups

WIDTH, MARGIN = 80, 16
USAGE = """\
bilaw train [--method NAME] [--config FILE] [--GROUP.SETTING VALUE ...]
                   [--run DIR | --resume RUN] [--print-config]"""
OPTIONS = {
    "--method NAME": f"one of {', '.join(METHODS)}",
    "--config FILE": "settings in TOML; --method overrides it, flags override both",
    "--run DIR": "the run's new folder (default: runs/DATA-MODEL-METHOD-NUMBER)",
    "--resume RUN": "go on with a run that was interrupted, to the same bits",
    "--print-config": "print the settings in force as TOML, and stop",
}
EXAMPLES = (
    "bilaw train --method bilaw-trades --attack.eps 8/255 --optim.epochs 40",
    "bilaw train --config runs/mine/config.toml --seed 1 --run runs/mine-again",
)
METAVARS = {str: "NAME", int: "N", float: "X", bool: "true|false"}


class Help(argparse.Action):
    """`--help`, `--help GROUP` and `--help all`."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Print what was asked for, and end."""
        if values in (None, ""):
            text = overview()
        elif values == "all":
            text = "\n\n".join([overview(), *(group_help(name) for name in groups() if name)])
        elif values in groups():
            text = group_help(values)
        else:
            look_up("--help", values, {name: True for name in (*groups(), "all") if name})
        print(text)
        parser.exit()


def overview() -> str:
    """Return the first screen: usage, the general options, a line a group."""
    (seed,) = groups()[""].settings
    options = {**OPTIONS, "--seed N": f"{seed.meaning} (default: {seed.default})"}
    lines = [f"usage: {USAGE}"]
    for name, meaning in options.items():
        lines += _hanging(f"  {name}", meaning)
    lines.append("\nsettings, --GROUP.SETTING VALUE, explained by --help GROUP (or --help all):")
    for name, group in groups().items():
        if name:
            lines += _hanging(f"  {name}", group.meaning)
    return "\n".join([*lines, *(f"  $ {example}" for example in EXAMPLES)])


def group_help(name: str) -> str:
    """Return one group's screen: every setting with what it takes, its default and what it is for."""
    group = groups()[name]
    lines = [*textwrap.wrap(f"{name}: {group.meaning}", WIDTH)]
    for setting in group.settings:
        lines.append(f"  --{setting.name} {metavar(setting)}".ljust(44) + f"default: {default(setting)}")
        lines += textwrap.wrap(setting.meaning, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(lines)


def metavar(setting: Setting) -> str:
    """Return the placeholder of a setting's value: NAME, N, X (a number or a fraction), lists of them, or auto."""
    name = METAVARS[setting.kind]
    return (f"{name},{name},..." if setting.many else name) + ("|auto" if setting.auto else "")


def default(setting: Setting) -> str:
    """Return the default as one would type it."""
    if setting.many:
        return ",".join(map(str, setting.default)) or "none"
    if setting.kind is bool and not setting.auto:
        return str(setting.default).lower()
    return "auto" if setting.default is None else str(setting.default).removesuffix(".0")


def _hanging(head: str, text: str) -> Sequence[str]:
    lines = textwrap.wrap(text, WIDTH - MARGIN - 2, break_on_hyphens=False)
    return [part.ljust(MARGIN + 2) + line for part, line in zip([head] + [""] * len(lines), lines, strict=False)]
