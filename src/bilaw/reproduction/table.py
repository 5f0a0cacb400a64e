"""A table as data: ours beside the paper's, what differs by more than chance, and what stands behind each figure."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bilaw.config import Config
from bilaw.evaluation.statistics import holm
from bilaw.recipes.paper import printed
from bilaw.recipes.protocol import SCALES, Setting
from bilaw.recipes.tables import Place, Table
from bilaw.reproduction.figures import Figure, Seeds, gather, seeds_in
from bilaw.reproduction.hypotheses import hypotheses
from bilaw.reproduction.inference import Mean, apart, mean, speedup
from bilaw.reproduction.plan import Cell, cells, times
from bilaw.runs import Run
from bilaw.settings import values_of
from bilaw.version import __version__

SCHEMA = "bilaw-table-1"
LEVEL = 0.05


def tabulate(table: Table, scale: str, out: Path, on: Setting | None = None) -> dict[str, Any]:
    """Return the table of all that has finished in the grid's folder, with whatever seeds there are."""
    seeds = seeds_in(out)
    held = {(cell.place, cell.row.name): gather(cell, out, seeds) for cell in cells(table, scale, on)}
    fast = _speedups(table, scale, out, on)
    columns = []
    for place in table.places(scale, on):
        rows = [_row(one, place, scale, fast) for (where, _), one in held.items() if where == place]
        columns.append({**_column(table, place, scale), "rows": rows})
    _mark(columns)
    return {
        "schema": SCHEMA,
        "bilaw": __version__,
        "name": "-".join([table.name, scale, *(["on", *str(on).split("/")] if on and table.movable else [])]),
        "table": table.name,
        "title": table.title,
        "about": table.about.strip(),
        "scale": scale,
        "scale means": SCALES[scale],
        "command": _command(table, scale, held.values(), on),
        "machines": sorted({_machine(path) for one in held.values() for path in one.learnt.values()}),
        "metrics": list(table.metrics),
        "columns": columns,
        "hypotheses": [one.as_json() for one in hypotheses(table.name, held, fast)],
    }


def gathered(table: Table, scale: str, out: Path, on: Setting | None = None) -> list[Path]:
    """Return the runs that a table is of."""
    seeds = seeds_in(out)
    return [path for cell in cells(table, scale, on) for path in gather(cell, out, seeds).learnt.values()]


def finished(data: dict[str, Any]) -> bool:
    """Tell whether there is anything in a table."""
    return any(row["seeds"] or row["collapsed"] for column in data["columns"] for row in column["rows"])


def _command(table: Table, scale: str, held: Iterable[Seeds], on: Setting | None) -> str:
    """Return the command that makes the table anew."""
    measured = [figure.seed for one in held for found in one.figures.values() for figure in found]
    seeds = max(measured, default=0) + 1
    moved = f" --on {on}" if on and table.movable else ""
    return f"bilaw reproduce {table.name} --scale {scale} --seeds {seeds}{moved}"


def _machine(folder: Path) -> str:
    """Return what a run was trained on, in words."""
    about = Run(folder).environment()
    device, threads = about["device"], about["threads"]
    model = f" ({device['model']})" if device["model"] else ""
    return f"{device['name']}{model}, {threads} thread{'s' * (threads > 1)}, PyTorch {about['versions']['torch']}"


def _column(table: Table, place: Place, scale: str) -> dict[str, Any]:
    cell = Cell(table, place, table.rows[0], scale)
    sources = cell.sources(0)
    return {
        "paper": str(place.paper),
        "ours": str(place.ours),
        "same setting": place.paper == place.ours,
        "protocol": cell.protocol.words,
        "attacks": {metric: source.attack.partition(":")[0] for metric, source in sources.items()},
    }


def _row(held: Seeds, place: Place, scale: str, fast: dict[tuple[Place, str], Mean]) -> dict[str, Any]:
    cell = held.cell
    each = [{one.seed for one in found} for found in held.figures.values()]
    figures = {metric: _figure(cell, metric, found) for metric, found in held.figures.items()}
    if "speedup" in cell.table.metrics:
        ratio = fast.get((place, cell.row.name))
        figures["speedup"] = _entry(cell, "speedup", ratio)
    return {
        "row": cell.row.name,
        "title": cell.row.title,
        "settings": _chosen(cell.train(0).config, cell.protocol.base),
        "seeds": sorted(set.union(*each)),
        "collapsed": list(held.collapsed),
        "minutes of training": round(statistics.fmean(held.minutes), 2) if held.minutes else None,
        "figures": figures,
    }


def _figure(cell: Cell, metric: str, found: Sequence[Figure]) -> dict[str, Any]:
    if not found:
        return _entry(cell, metric, None)
    values, n = [one.accuracy for one in found], min(one.n for one in found)
    held = mean(values, n)
    entry = _entry(cell, metric, Mean(*(100 * value for value in held)))
    flags = [one.reliable for one in found]
    told = entry["paper"]
    sure = False not in flags  # an unreliable figure is compared with nothing
    if sure and told is not None and cell.place.paper == cell.place.ours and told["suspect"] is None:
        entry["p"] = apart(values, n, told["value"] / 100)
    about = {
        "values": {str(one.seed): round(100 * one.accuracy, 4) for one in found},
        "samples": n,
        "reliable": False if False in flags else None if None in flags else True,
    }
    return {**entry, **about}


def _entry(cell: Cell, metric: str, ours: Mean | None) -> dict[str, Any]:
    told = printed(cell.table.name, cell.row.name, str(cell.place.paper), metric)
    difference = None if ours is None or told is None else ours.mean - told.value
    return {
        "ours": None if ours is None else {name: round(value, 4) for name, value in ours._asdict().items()},
        "paper": None if told is None else told._asdict(),
        "difference": None if difference is None else round(difference, 4),
        "p": None,
        "differs": None,
    }


def _mark(columns: Sequence[dict[str, Any]]) -> None:
    """Say which differences are more than chance, all tests of the table taken together (Holm)."""
    tested = [
        figure
        for column in columns
        for row in column["rows"]
        for figure in row["figures"].values()
        if figure["p"] is not None
    ]
    for figure, p in zip(tested, holm([figure["p"] for figure in tested]), strict=True):
        figure["p"], figure["differs"] = float(f"{p:.4g}"), p < LEVEL


def _chosen(config: Config, base: Config) -> dict[str, Any]:
    """Return what the row sets: where it differs from what all rows share."""
    held, shared = values_of(config), values_of(base)
    apart = {name: value for name, value in held.items() if value != shared[name] and name != "seed"}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in apart.items()}


def _speedups(table: Table, scale: str, out: Path, on: Setting | None) -> dict[tuple[Place, str], Mean]:
    found = {}
    for place, task in times(table, scale, on):
        if not task.done(out):
            continue
        held = json.loads(task.file(out).read_text(encoding="utf-8"))["seconds"]
        for row, seconds in zip(table.rows, held, strict=True):
            found[place, row.name] = speedup(held[0], seconds)
    return found
