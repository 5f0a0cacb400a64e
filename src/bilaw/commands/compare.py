"""`bilaw compare`: finished evaluations side by side, the best marked only where it is no chance."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bilaw.commands.train import RUNS
from bilaw.errors import look_up, refuse
from bilaw.evaluation.compare import LEVEL, Cell, Comparison, Difference, compare
from bilaw.evaluation.judged import open_all
from bilaw.evaluation.tables import FORMATS

TABLE = "table"
WIDE = 10_000  # off a terminal there is no width to fold to: one line a row, for whatever reads it


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "compare",
        help="compare evaluated runs: what differs by more than chance",
        description="Print evaluated runs side by side. Runs that differ by their seed alone are one row: mean, "
        "deviation and interval. The best of a column is marked * only if it beats every other row by more than "
        "chance (McNemar's exact test on the same samples; Welch's between groups of seeds; Holm's adjustment).",
    )
    parser.add_argument("folders", metavar="RUN", nargs="+", help="an evaluated run, or the folder of an evaluation")
    parser.add_argument(
        "--format",
        metavar="NAME",
        default=TABLE,
        help="table, csv, markdown, latex (booktabs) or json (default: table)",
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the table, and what stands behind its marks."""
    kind = "json" if arguments.json else arguments.format
    if arguments.json and arguments.format != TABLE:
        refuse("--json", f"with --format {arguments.format}", "one of the two")
    look_up("--format", kind, dict.fromkeys((TABLE, "json", *FORMATS)))
    found = compare(open_all(_folders(arguments.folders)))
    if kind == "json":
        print(json.dumps(as_json(found)))
        return 0
    if kind in FORMATS:
        print(FORMATS[kind](found), end="")
        return 0
    table = Table(box=None, pad_edge=False)
    table.add_column("run", overflow="fold", no_wrap=False)
    for attack in found.attacks:
        table.add_column(attack, justify="right", no_wrap=True)
    for name, row in found.rows.items():
        table.add_row(Text(name), *(Text(told(row[attack])) for attack in found.attacks))
    console = Console()
    (console if console.is_terminal else Console(width=WIDE)).print(table)
    cells = [cell for row in found.rows.values() for cell in row.values()]
    if any(cell.best for cell in cells):
        print(f"* better than every other row, p < {LEVEL:g}")
    if any(cell.reliable is False for cell in cells):
        print("! unreliable: a check of the audit failed; see the run's card.md. It is compared with nothing")
    if any(cell.reliable is None for cell in cells):
        print("? not audited")
    for one in found.differences:
        print(explained(one))
    return 0


def told(cell: Cell) -> str:
    """Return an accuracy as the table shows it."""
    mark = ("*" if cell.best else "") + {False: "!", None: "?", True: ""}[cell.reliable]
    if cell.spread:
        return f"{mark}{cell.accuracy:.1%} ± {cell.spread.deviation:.1%} [{cell.low:.1%}, {cell.high:.1%}]"
    return f"{mark}{cell.accuracy:.1%} [{cell.low:.1%}, {cell.high:.1%}]"


def explained(one: Difference) -> str:
    """Return a difference in a line."""
    parts = [f"{one.attack}: {one.a} - {one.b} = {100 * one.difference:+.1f} points"]
    if one.interval:
        parts.append(f"[{100 * one.interval[0]:+.1f}, {100 * one.interval[1]:+.1f}]")
    if one.counts:
        parts.append(f"only the first right {one.counts.only_a}, only the second {one.counts.only_b},")
    parts.append(f"p = {one.p:.2g}" if one.p is not None else "no test: too few seeds, or seeds that all agree")
    return " ".join(parts)


def as_json(found: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON has it."""
    rows = {
        name: {
            attack: {**cell._asdict(), "spread": cell.spread and cell.spread._asdict()} for attack, cell in row.items()
        }
        for name, row in found.rows.items()
    }
    differences = [{**one._asdict(), "counts": one.counts and one.counts._asdict()} for one in found.differences]
    return {"attacks": found.attacks, "rows": rows, "differences": differences}


def _folder(asked: str) -> Path:
    places = [place for place in (Path(asked), RUNS / asked) if place.is_dir()] if asked else []
    if not places:
        refuse("RUN", asked, "the folder of an evaluated run (`bilaw runs` lists runs, `bilaw evaluate` measures one)")
    return places[0]


def _folders(asked: list[str]) -> list[Path]:
    folders = [_folder(one) for one in asked]
    if len({folder.resolve() for folder in folders}) < len(folders):
        refuse("RUN", " ".join(asked), "each run once")
    return folders
