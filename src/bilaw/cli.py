"""The `bilaw` command."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from bilaw import __version__
from bilaw.commands import compare, data, demo, evaluate, report, reproduce, runs, train
from bilaw.commands.parser import Parser
from bilaw.errors import Refused, user_frame
from bilaw.memory import keep_freed
from bilaw.training.guards import Diverged

COMMANDS = {
    "demo": demo,
    "data": data,
    "train": train,
    "evaluate": evaluate,
    "compare": compare,
    "report": report,
    "runs": runs,
    "reproduce": reproduce,
}


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
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - it stays
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold what the terminal cannot show
    keep_freed()
    parser = build_parser()
    try:
        arguments = parser.parse_args(argv)
        if arguments.command is None:
            parser.print_help(sys.stderr)
            return 2
        status = int(COMMANDS[arguments.command].run(arguments))
        sys.stdout.flush()  # here, where a reader that has gone is no traceback
        return status
    except Refused as error:
        return _end(error, 2)
    except BrokenPipeError:  # whoever read the output has gone; so that Python's own flush at the end finds a reader:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _end("nobody reads the output any more", 1)
    except Diverged as error:
        return _end(error, 1)
    except OSError as error:
        if user_frame(error) and not getattr(error, "explained", False):
            raise  # in code of the user's own, which wants to know where
        return _end(error, 1)
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        what = str(error).partition("\n")[0] or "out of memory."
        return _end(f"{what} Lower optim.batch (and meta.batch), or choose a smaller model", 1)
    except KeyboardInterrupt:
        return _end("stopped", 130)


def _is_memory(error: Exception) -> bool:
    """Tell whether there was no room; of the host's memory PyTorch says so in words alone."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _end(why: object, status: int) -> int:
    print("bilaw:", *str(why).splitlines(), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
