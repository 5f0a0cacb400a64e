"""`bilaw reproduce --list`: every row, its settings, and what it will cost here, before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bilaw.commands.reproduce_progress import span
from bilaw.recipes.protocol import Setting
from bilaw.reproduction import cost
from bilaw.reproduction.plan import Cell, tasks
from bilaw.settings import values_of

WIDE = 10_000  # off a terminal there is no width to fold to


def listing(
    console: Console, chosen: Sequence[Cell], seeds: int, out: Path, on: Setting | None, asked: int | None
) -> None:
    """Print it."""
    found = tasks(chosen, seeds, on)
    todo = {name: task for name, task in found.items() if not task.done(out)}
    jobs, threads = cost.crew(max(len(todo), 1), asked, torch.cuda.is_available())
    costs = {name: cost.seconds(task, threads) for name, task in found.items()}
    wide = console if console.is_terminal else Console(width=WIDE)
    shown: set[tuple[str, Setting]] = set()
    table = Table(box=None, pad_edge=False)
    for heading in ("column/row", "settings", "estimate", "done"):
        table.add_column(heading, justify="right" if heading in ("estimate", "done") else "left", overflow="fold")
    for cell in chosen:
        if (place := (cell.table.name, cell.place.ours)) not in shown:
            shown.add(place)
            table.add_row(Text(f"{cell.table.name}: {cell.protocol.words}", style="bold"))
        names = [task.name for seed in range(seeds) for task in cell.tasks(seed)]
        done = sum(name not in todo for name in names)
        total = sum(costs[name] for name in dict.fromkeys(names))
        table.add_row(Text(cell.label), Text(_settings(cell)), span(total), _share(done, len(names)))
    wide.print(table)
    runs = len({task.folder for task in found.values()})
    ahead = sum(costs[name] for name in todo)
    most = max((cost.memory(task, threads) for task in todo.values()), default=0.0)
    shared = sum(len(list(cell.tasks(0))) for cell in chosen) * seeds > len(found)
    note = " (what rows share is done once, and counted here once)" if shared else ""
    console.print(
        f"scale {chosen[0].scale}, {seeds} seed{'s' * (seeds > 1)}: {runs} runs, {span(ahead)} of work left{note}, "
        f"{span(ahead / jobs)} with {jobs} at a time; up to {most / 1024:.1f} GiB each. By a quick timing: expect a "
        "factor of two.",
        soft_wrap=True,
        highlight=False,
    )


def _settings(cell: Cell) -> str:
    """Return what the row sets beside what its column shares, as flags are typed."""
    config = cell.train(0).config
    held, base = values_of(config), values_of(cell.protocol.base)
    parts = [f"{name} {_typed(value)}" for name, value in held.items() if value != base[name] and name != "seed"]
    return ", ".join(parts) or "as the column's base"


def _typed(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _share(done: int, total: int) -> str:
    return "yes" if done == total else f"{done}/{total}" if done else "no"
