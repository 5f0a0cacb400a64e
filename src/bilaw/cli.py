"""The `bilaw` command."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import torch

from bilaw import __version__
from bilaw.commands import compare, data, demo, evaluate, runs, train
from bilaw.commands.parser import Parser
from bilaw.training.guards import Diverged

COMMANDS = {"demo": demo, "data": data, "train": train, "evaluate": evaluate, "compare": compare, "runs": runs}


def build_parser() -> Parser:
    """Return the whole command line."""
    parser = Parser(prog="bilaw", description="Robust image classifiers with learned sample weights.")
    parser.add_argument("--version", action="version", version=f"bilaw {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS.values():
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run `bilaw`, and return its exit status: 2 for input it does not accept, 1 for what went wrong on the way."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold what the terminal cannot show
    parser = build_parser()
    try:
        arguments = parser.parse_args(argv)
        if arguments.command is None:
            parser.print_help(sys.stderr)
            return 2
        status = int(COMMANDS[arguments.command].run(arguments))
        sys.stdout.flush()  # here, where a reader that has gone is no traceback
        return status
    except ValueError as error:
        return _end(error, 2)
    except BrokenPipeError:  # whoever read the output has gone; so that Python's own flush at the end finds a reader:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _end("nobody reads the output any more", 1)
    except (Diverged, OSError) as error:
        return _end(error, 1)
    except torch.OutOfMemoryError as error:
        return _end(f"{str(error).splitlines()[0]} Lower optim.batch (and meta.batch), or choose a smaller model", 1)
    except KeyboardInterrupt:
        return _end("stopped", 130)


def _end(why: object, status: int) -> int:
    print("bilaw:", *str(why).splitlines(), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
