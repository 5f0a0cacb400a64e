"""A grid of two runs that takes seconds, and what it comes to."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from bilaw.recipes.tables import TABLES
from bilaw.reproduction.grid import Grid
from bilaw.reproduction.plan import cells, choose, tasks

ONLY = "fc1/l2/at,fc1/l2/bilaw"
COMMAND = [sys.executable, "-m", "bilaw.cli", "reproduce"]


def small_grid(out, only=ONLY, table="mnist", **more):
    """Return a grid at the scale `smoke` that tells its events to a list, which comes with it."""
    chosen = choose(cells(TABLES[table], "smoke"), only.split(","))
    events, react = [], more.pop("react", lambda event, grid: None)
    given = {"jobs": 1, "threads": 1, "memory": lambda task: 100.0, "budget": 1000.0, **more}
    out.mkdir(parents=True, exist_ok=True)

    def watch(event):
        events.append(event)
        react(event, grid)

    grid = Grid(out, tasks(chosen, 1), watch=watch, **given)
    return grid, events


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def kinds(events, kind):
    return [event.task.name for event in events if event.kind == kind]


def table_of(folder):
    """Return a table's data but for what is not the same each time."""
    (file,) = Path(folder).glob("*.json")
    held = json.loads(file.read_text())
    for column in held["columns"]:
        for row in column["rows"]:
            del row["minutes of training"]
    return held


def reproduce(*words, **more):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": env}
    return subprocess.Popen([*COMMAND, *map(str, words)], **{**pipes, **more})
