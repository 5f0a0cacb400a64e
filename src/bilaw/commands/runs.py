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

from bilaw import runs
from bilaw.commands.train import RUNS, names
from bilaw.errors import refuse


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "runs",
        help="list runs with their status and best scores",
        description="List the runs in a folder: where each stands, and its best epoch on the select split.",
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=RUNS, help="a run, or a folder of runs (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON a run")


def run(arguments: argparse.Namespace) -> int:
    """Print a table, best robust accuracy first among equals in data and model."""
    if not arguments.folder.is_dir():
        refuse("folder", str(arguments.folder), "a folder that holds runs; `bilaw train` makes them in runs/")
    rows = [row for found in runs.find(arguments.folder) if (row := summary(found))]
    if arguments.json:
        for row in rows:
            print(json.dumps(row))
        return 0
    if not rows:
        print(f"no runs in {arguments.folder}; `bilaw train` makes one")
        return 0
    table = Table()
    for heading in ("run", "method", "status", "epochs", "clean", "robust", "seen"):
        numbers = heading in ("epochs", "clean", "robust", "seen")
        table.add_column(heading, justify="right" if numbers else "left", no_wrap=heading != "run", overflow="fold")
    for row in rows:
        best = row["best"] or {}
        table.add_row(
            *(str(row[name]) for name in ("run", "method", "status")),
            f"{row['epoch']}/{row['epochs']}",
            *(f"{best[name]:.1%}" if best else "-" for name in ("clean", "robust")),
            f"{ago(time.time() - row['updated'])} ago",
        )
    Console().print(table)
    print("clean, robust: accuracy on the select split, at the epoch with the best PGD accuracy there")
    return 0


def summary(found: runs.Run) -> dict[str, Any] | None:
    """Return what there is to say of a run in one line; None, and a word on stderr, where its files are damaged."""
    try:
        status, config = found.status(), found.config()
    except (ValueError, OSError, KeyError) as error:
        print(f"bilaw: {found.path} cannot be read: {error}", file=sys.stderr)
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
