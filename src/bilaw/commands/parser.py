"""A command line that refuses as everything else does: one line, the value, the nearest valid name."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from bilaw.errors import Refused, look_up
from bilaw.settings import did_you_mean


class Once(argparse._StoreAction):
    """An option with a value, which cannot have two."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Take the value, the first time."""
        given: set[str] = vars(namespace).setdefault("_given", set())
        if option_string and self.dest in given:
            raise Refused(f"{option_string} is given twice; see `{parser.prog} --help`")
        given.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises `ValueError` in place of printing its usage and ending the process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})
        self.register("action", None, Once)

    def error(self, message: str) -> NoReturn:
        """Refuse what argparse itself finds wrong."""
        raise Refused(f"{message.removeprefix('argument ')}; see `{self.prog} --help`")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse what is left over here, where the options are known that it may have meant."""
        found, extra = super().parse_known_args(args, namespace)
        if extra:
            self._refuse_extra(extra[0].partition("=")[0])
        return found, extra

    def _refuse_extra(self, extra: str) -> NoReturn:
        if not extra.startswith("-"):
            self.error(f"there is no place for {extra!r}")
        known = {option.lstrip("-"): None for action in self._actions for option in action.option_strings}
        hint = did_you_mean(extra.lstrip("-"), known, prefix="--")
        raise Refused(f"there is no option {extra}{hint}; see `{self.prog} --help`")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None:
            look_up(str(action.metavar or action.dest), value, dict.fromkeys(action.choices, True))
