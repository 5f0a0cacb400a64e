"""How a grid of runs shows: one live overview on a terminal; elsewhere a plain line whenever something happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bilaw.reproduction.grid import Event
from bilaw.reproduction.tasks import Evaluate, Task, Train

EVERY = 60.0  # seconds between plain lines on what is running
ENDS = ("done", "found", "failed", "left")
VERBS = {Train: "train", Evaluate: "evaluate"}


@dataclass
class Standing:
    """Where the grid stands, as far as its events tell."""

    tasks: Mapping[str, Task]
    costs: Mapping[str, float]  # seconds that each was expected to take
    jobs: int
    now: Callable[[], float] = time.monotonic
    ended: dict[str, str] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)  # how far each is, 0 to 1
    first: dict[str, tuple[float, float]] = field(default_factory=dict)  # when each was first heard of, and how far
    spent: float = 0.0  # expected seconds of what has been done here
    began: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.now()

    def hear(self, event: Event) -> None:
        """Take note."""
        name, cost = event.task.name, self.costs.get(event.task.name, 0.0)
        if event.kind == "begun":
            self.running[name] = 0.0
        elif event.kind == "at":
            _, done, total = event.more
            share = done / max(total, 1)
            self.first.setdefault(name, (self.now(), share))
            self.spent += cost * max(0.0, share - self.running.get(name, share))
            self.running[name] = share
        elif event.kind in ENDS:
            if event.kind == "done":
                self.spent += cost * (1 - self.running.get(name, 0.0))
            self.running.pop(name, None)
            self.ended[name] = event.kind
        elif event.kind in ("killed", "busy"):
            self.running.pop(name, None)

    def runs(self) -> tuple[int, int, int]:
        """Return how many runs are trained and measured, how many failed, and how many there are."""
        of: dict[str, list[str | None]] = {}
        for name, task in self.tasks.items():
            of.setdefault(task.folder, []).append(self.ended.get(name))
        good = sum(all(end in ("done", "found") for end in ends) for ends in of.values())
        bad = sum(any(end in ("failed", "left") for end in ends) for ends in of.values())
        return good, bad, len(of)

    def left(self) -> float | None:
        """Return the seconds left, at the pace of what has been done here against what it was expected to take."""
        ahead = sum(cost for name, cost in self.costs.items() if name not in self.ended)
        ahead -= sum(self.costs.get(name, 0.0) * share for name, share in self.running.items())
        passed = self.now() - self.began
        if self.spent <= 0 or passed < 5:
            return ahead / self.jobs
        return ahead * passed / self.spent

    def share(self) -> float:
        """Return how much of the expected work is done, 0 to 1."""
        total = sum(self.costs.values())
        done = sum(cost for name, cost in self.costs.items() if name in self.ended)
        done += sum(self.costs.get(name, 0.0) * share for name, share in self.running.items())
        return done / total if total else 1.0


def span(seconds: float | None) -> str:
    """Return a length of time in words.

    >>> span(40), span(3600 * 5.2), span(3600 * 80)
    ('1 min', '5.2 h', '3.3 d')
    """
    if seconds is None:
        return "?"
    if seconds < 5400:
        return f"{max(1, round(seconds / 60))} min"
    return f"{seconds / 3600:.1f} h" if seconds < 86400 * 2 else f"{seconds / 86400:.1f} d"


@contextmanager
def overview(
    console: Console, title: str, tasks: Mapping[str, Task], costs: Mapping[str, float], jobs: int
) -> Iterator[Callable[[Event], None]]:
    """Show runs done, running and failed, and the time left; what fails is said when it does."""
    standing = Standing(tasks, costs, jobs)

    def write(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    if not console.is_terminal:
        write(f"{title}: {len({task.folder for task in tasks.values()})} runs, about {span(standing.left())}")
        yield _lines(standing, write)
        return
    with Live(_drawn(standing, title, console.width), console=console, refresh_per_second=2) as live:

        def hear(event: Event) -> None:
            standing.hear(event)
            if text := _news(event):
                write(text)
            live.update(_drawn(standing, title, console.width))

        yield hear


def _news(event: Event) -> str | None:
    """Return what is worth a line of its own above the overview."""
    told: dict[str, str] = {
        "failed": "failed: {0}: {1}",
        "killed": "killed: {0}, with status {1}; it goes on",
        "left": "left out: {0}: what it needs has failed",
        "busy": "another command is at {0}: waiting for it",
    }
    if event.kind not in told or (event.kind == "busy" and event.more == (False,)):
        return None  # that another is at it is said once
    return told[event.kind].format(event.task.name, *event.more)


def _lines(standing: Standing, write: Callable[[str], None]) -> Callable[[Event], None]:
    written = standing.now()

    def hear(event: Event) -> None:
        nonlocal written
        standing.hear(event)
        good, bad, total = standing.runs()
        text = _news(event) or (f"{_verb(event.task)}: {event.task.name}: done" if event.kind == "done" else None)
        if text is None and standing.now() - written >= EVERY:
            text = "running: " + ", ".join(f"{name} {share:.0%}" for name, share in standing.running.items())
        if text is not None:
            written = standing.now()
            failed = f", {bad} failed" if bad else ""
            write(f"[{good}/{total} runs{failed}, {span(standing.left())} left] {text}")

    return hear


def _verb(task: Task) -> str:
    return VERBS.get(type(task), "time")


def _drawn(standing: Standing, title: str, width: int) -> Any:
    good, bad, total = standing.runs()
    failed = f"  {bad} failed" if bad else ""
    head = Text(f"{title}: {good} of {total} runs{failed}  {span(standing.left())} left", no_wrap=True)
    bar = ProgressBar(total=1.0, completed=standing.share(), width=min(width, 60))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="ellipsis", no_wrap=True)
    for name, share in standing.running.items():
        task = standing.tasks[name]
        table.add_row(_verb(task), f"{share:.0%}", Text(task.folder))
    line = Table.grid()  # a bar by itself ends no line
    line.add_row(bar)
    return Group(head, line, table)
