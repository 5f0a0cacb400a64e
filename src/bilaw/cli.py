"""The `bilaw` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bilaw import __version__
from bilaw.commands import demo, runs, train
from bilaw.training.guards import Diverged

COMMANDS = {"demo": demo, "train": train, "runs": runs}


def main(argv: Sequence[str] | None = None) -> int:
    """Run `bilaw`, and return its exit status: 2 for input it does not accept, 1 for what went wrong on the way."""
    parser = argparse.ArgumentParser(prog="bilaw", description="Robust image classifiers with learned sample weights.")
    parser.add_argument("--version", action="version", version=f"bilaw {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        command.add_parser(commands)
    arguments = parser.parse_args(argv)
    try:
        return int(COMMANDS[arguments.command].run(arguments))
    except ValueError as error:
        print(f"bilaw: {error}", file=sys.stderr)
        return 2
    except (Diverged, OSError) as error:
        print(f"bilaw: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
