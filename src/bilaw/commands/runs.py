"""`bilaw runs`: the runs in a folder, where each stands, and how good it is."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bilaw import runs
from bilaw.commands.train import RUNS
from bilaw.errors import refuse
from bilaw.recipes.methods import names

ONE_LINE = 10_000  # columns, more than any run's


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "runs",
        help="list runs with their status and best scores",
        description="List the runs in a folder: where each stands, and its best epoch on the select split.",
    )
    parser.add_argument("folder", metavar="FOLDER", nargs="?", help=f"a run, or a folder of runs (default: {RUNS})")
    parser.add_argument("--json", action="store_true", help="print one line of JSON a run")


def run(arguments: argparse.Namespace) -> int:
    """Print a table, oldest run first."""
    folder = RUNS if arguments.folder is None else Path(arguments.folder)
    if not folder.is_dir() and arguments.folder is not None:
        refuse("FOLDER", arguments.folder, f"a folder that holds runs; `bilaw train` makes them in {RUNS}/")
    rows = [row for found in runs.find(folder) if (row := summary(found))]
    if arguments.json:
        for row in rows:
            print(json.dumps(row))
        return 0
    if not rows:
        print(f"no runs in {folder}; `bilaw train` makes one")
        return 0
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "method", "status", "epochs", "clean", "robust", "seen"):
        numbers = heading in ("epochs", "clean", "robust", "seen")
        table.add_column(heading, justify="right" if numbers else "left", no_wrap=heading != "run", overflow="fold")
    for row in rows:
        best = row["best"] or {}
        table.add_row(
            *(Text(str(row[name])) for name in ("run", "method", "status")),
            f"{row['epoch']}/{row['epochs']}",
            *(f"{best[name]:.1%}" if best.get(name) is not None else "-" for name in ("clean", "robust")),
            f"{ago(time.time() - row['updated'])} ago",
        )
    console = Console()
    # Off a terminal there is no width to fold to: one line a run, for whatever reads it.
    (console if console.is_terminal else Console(width=ONE_LINE)).print(table)
    print("clean, robust: accuracy on the select split, at the epoch with the best PGD accuracy there")
    return 0


def summary(found: runs.Run) -> dict[str, Any] | None:
    """Return what there is to say of a run in one line; None, and a word on stderr, where its files are damaged."""
    try:
        status, config = found.status(), found.config()
    except (ValueError, OSError, KeyError, TypeError) as error:
        print(f"bilaw: {found.path} cannot be read: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    data, model, method = names(config)
    about = {"run": found.path.name, "data": data, "model": model, "method": method, "seed": config.seed}
    state = {"status": status.state, "epoch": status.epoch, "epochs": status.epochs, "best": status.best}
    return {**about, **state, "updated": status.updated, "path": str(found.path)}


def ago(seconds: float) -> str:
    """Return a length of time in its largest whole unit.

    >>> ago(5), ago(190), ago(90_000)
    ('5 s', '3 min', '1 d')
    """
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
