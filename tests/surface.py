"""Every command, option, default and help of the command line as text: `python tests/surface.py` freezes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from bilaw.cli import build_parser
from bilaw.commands.train_help import default, metavar
from bilaw.settings import settings

FROZEN = Path(__file__).parent / "frozen" / "cli.txt"


def surface() -> str:
    """Return the listing."""
    return "\n".join(_lines(build_parser())) + "\n"


def _lines(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"{parser.prog}: {parser.description or ''}".rstrip(": ")
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            yield f"  {_action(action)}"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for known in action._choices_actions:
                yield f"\n{parser.prog} {known.dest}  # {known.help}"
                yield from _lines(action.choices[known.dest])


def _action(action: argparse.Action) -> str:
    if action.dest in settings() and action.default is argparse.SUPPRESS:
        setting = settings()[action.dest]
        return f"--{setting.name} {metavar(setting)} = {default(setting)}  # {setting.meaning}"
    named = ", ".join(action.option_strings) or str(action.metavar or action.dest)
    takes = f" {action.metavar}" if action.option_strings and action.metavar else ""
    many = f" ({action.nargs})" if action.nargs not in (None, 0) else ""
    start = "" if action.default in (None, False, argparse.SUPPRESS) else f" = {action.default}"
    help_text = f"  # {action.help}".replace("%(default)s", str(action.default)) if action.help else ""
    return f"{named}{takes}{many}{start}{help_text}"


if __name__ == "__main__":
    FROZEN.write_text(surface(), encoding="utf-8")
