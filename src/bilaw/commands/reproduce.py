"""`bilaw reproduce`: the paper's tables, ours beside theirs, from one command that may be stopped and repeated."""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from bilaw.commands.evaluate import whole
from bilaw.commands.reproduce_list import listing
from bilaw.commands.reproduce_progress import overview
from bilaw.datasets.cache import faults
from bilaw.datasets.known import KNOWN
from bilaw.errors import Refused, look_up, refuse
from bilaw.files import LONGEST, explained, is_name
from bilaw.recipes.protocol import SCALES, Setting
from bilaw.recipes.tables import TABLES
from bilaw.reproduction import cost, formats, results
from bilaw.reproduction.grid import Grid
from bilaw.reproduction.plan import MOST_SEEDS, cells, choose, tasks
from bilaw.reproduction.table import finished, gathered, tabulate
from bilaw.reproduction.tasks import Task, Train

OUT = "runs/reproduce"
ALL = "all"
DESCRIPTION = """\
Train and measure what a table of the paper tells of, and print ours beside the
paper's. What is finished is reused and what was killed goes on when the same
command is given again; whatever fails is reported, and the rest goes on."""
EPILOG = f"""\
tables: {", ".join(TABLES)}, {ALL}
scales: {"; ".join(f"{name}: {meaning.partition(':')[0]}" for name, meaning in SCALES.items())}"""


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "reproduce",
        help="the paper's tables: trained, measured, and set beside the paper's figures",
        usage="bilaw reproduce [TABLE ...] [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("tables", metavar="TABLE", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--scale", metavar="NAME", default="small", help="default: %(default)s")
    parser.add_argument("--seeds", metavar="N", default="1", help="runs of each row, seeds 0 to N - 1 (default: 1)")
    parser.add_argument("--only", metavar="A,B", help="columns and rows, as in tiny-cnn/linf/at,bilaw*")
    parser.add_argument("--list", action="store_true", help="show rows, settings and estimated cost, and stop")
    parser.add_argument("--on", metavar="D/M/N/EPS", help="one-column tables on other data/model/norm/eps")
    parser.add_argument("--jobs", metavar="N", help="processes at a time (default: as cores and memory allow)")
    parser.add_argument("--out", metavar="DIR", default=OUT, help="where the runs are (default: %(default)s)")
    parser.add_argument("--results", metavar="DIR", help="where the tables go (default: DIR of --out/tables)")
    parser.add_argument("--tables-only", action="store_true", help="train nothing: tables of what has finished")
    parser.add_argument("--page", metavar="FILE", help="write a page of all tables in --results, and stop")


def run(arguments: argparse.Namespace) -> int:
    """Do what is left to do, and print the tables."""
    if arguments.page is not None:
        return _page(arguments)
    names = _names([ALL] if arguments.list and not arguments.tables else arguments.tables)
    look_up("--scale", arguments.scale, SCALES)
    on = None if arguments.on is None else Setting.parse(arguments.on, "--on")
    if on is not None and not any(TABLES[name].movable for name in names):
        refuse("--on", arguments.on, f"a table of one column: {', '.join(n for n, t in TABLES.items() if t.movable)}")
    seeds = whole("--seeds", arguments.seeds) or 0
    if not 1 <= seeds <= MOST_SEEDS:
        refuse("--seeds", arguments.seeds, f"a whole number from 1 to {MOST_SEEDS}")
    asked = None if arguments.jobs is None else whole("--jobs", arguments.jobs)
    if asked == 0:
        refuse("--jobs", arguments.jobs, "a whole number >= 1")
    only = [pattern for pattern in (arguments.only or "").split(",") if pattern]
    if arguments.only is not None and not only:
        refuse("--only", arguments.only, "columns and rows, as in tiny-cnn/linf/at,bilaw*; without it, all")
    found = [cell for name in names for cell in cells(TABLES[name], arguments.scale, on)]
    chosen = choose(found, only)
    if arguments.list:
        listing(Console(), chosen, seeds, Path(arguments.out), on, asked)
        return 0
    out = _folder("--out", arguments.out)
    folder = out / "tables" if arguments.results is None else _folder("--results", arguments.results)
    status = 0 if arguments.tables_only else _work(tasks(chosen, seeds, on), out, asked, arguments.scale)
    for name in dict.fromkeys(cell.table.name for cell in chosen):
        _show(name, arguments.scale, out, folder, on)
    return status


def _names(asked: Sequence[str]) -> list[str]:
    for name in asked:
        look_up("TABLE", name, {**TABLES, ALL: None})
    if not asked:
        refuse("TABLE", "nothing", f"one or more of {', '.join(TABLES)}, or {ALL}")
    return list(TABLES) if ALL in asked else list(dict.fromkeys(asked))


def _folder(option: str, asked: str) -> Path:
    if not is_name(asked):
        refuse(option, asked, f"a folder, its name in Unicode and without NUL, each part at most {LONGEST} bytes")
    folder = Path(asked)
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            refuse(option, asked, f"a folder; {place} is a file")
    return folder


def _work(found: dict[str, Task], out: Path, asked: int | None, scale: str) -> int:
    """Work off the grid; return 1 if anything failed."""
    todo = [task for task in found.values() if not task.done(out)]
    if not todo:
        return 0
    _check_data(todo)
    jobs, threads = cost.crew(len(todo), asked, torch.cuda.is_available())
    costs = {task.name: cost.seconds(task, threads) for task in todo}
    memory = {task.name: cost.memory(task, threads) for task in todo}
    with explained(out):
        out.mkdir(parents=True, exist_ok=True)
    title = f"scale {scale}, {jobs} at a time"
    with overview(Console(), title, found, costs, jobs) as watch:
        grid = Grid(out.absolute(), found, jobs, threads, lambda task: memory.get(task.name, 0.0), cost.free(), watch)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that all is saved
        try:
            outcome = grid.run()
        except KeyboardInterrupt:
            print("stopped; what was done is saved, and the same command goes on", file=sys.stderr)
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
    failed = {name: why for name, why in outcome.items() if why != "done"}
    if failed:
        counts = Counter(why.startswith("needs ") for why in failed.values())
        print(f"{counts[False]} failed, {counts[True]} left out for it; logs are in {out / 'logs'}", file=sys.stderr)
    return 1 if failed else 0


def _check_data(todo: Sequence[Task]) -> None:
    """Refuse to begin without the data: better now than an hour into the grid."""
    names = dict.fromkeys(task.config.data.name for task in todo if isinstance(task, Train))
    for name in names:
        if name in KNOWN and (wrong := faults(KNOWN[name], None, remove=False)):
            raise Refused(f"{name}: {next(iter(wrong.values()))}; to get it: bilaw data get {name}")


def _show(name: str, scale: str, out: Path, folder: Path, on: Setting | None) -> None:
    data = tabulate(TABLES[name], scale, out, on)
    if not finished(data):
        print(f"{name}: nothing has finished yet")
        return
    files = formats.write(data, folder)
    print(formats.markdown(data))
    print(f"written: {', '.join(str(file) for file in files)}\n")
    if name == "figures":
        _draw(gathered(TABLES[name], scale, out, on), folder / f"report-{scale}.html")


def _draw(runs: Sequence[Path], page: Path) -> None:
    """Draw the figures by `bilaw report`, where this bilaw has that command; else say of which runs."""
    words = ["report", *map(str, runs), "--out", str(page), "--figures", "pdf"]
    if find_spec("bilaw.commands.report") is None:
        print(f"to draw them: {shlex.join(['bilaw', *words])}\n")
        return
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "bilaw.cli", *words], check=False)  # it says itself what it lacks


def _page(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.out) / "tables" if arguments.results is None else _folder("--results", arguments.results)
    if not is_name(arguments.page) or Path(arguments.page).is_dir():
        refuse("--page", arguments.page, "the name of a file")
    results.write(folder, Path(arguments.page))
    print(f"{arguments.page}: the tables of {folder}")
    return 0
