"""A live bar on a terminal; elsewhere a plain line an epoch, and one a minute where epochs are long."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.table import Column
from rich.text import Text

from bilaw.training.watch import Epoch, Watch

EVERY = 60.0  # seconds between plain lines within an epoch
WIDE = 60  # columns from which on there is room for a bar


@contextmanager
def training_progress(console: Console, title: str, epochs: int, *, weighs: bool = True) -> Iterator[Watch]:
    """Show the step, and of the last epoch the loss, clean and PGD accuracy on *select*; and the time left.

    `weighs` adds the weights' effective sample size. Notes are printed above the bar.
    """
    clock = Clock()

    def write(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    def note(text: str) -> None:
        write(f"note: {text}")

    def describe(e: Epoch) -> str:
        return _describe(e, epochs, weighs)

    if console.is_terminal:
        with _bar(console, title, epochs, clock, describe, note) as watch:
            yield watch
    else:
        yield _lines(title, clock, describe, write, note)


class Clock:
    """How long the rest takes, at the pace of the steps seen here: a resumed run does not start at zero.

    It starts with the first step's end: loading data, and the first step's compilation, tell nothing of the rest.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now, self.began, self.first = now, 0.0, -1
        self.done, self.total = 0, 0

    def tick(self, done: int, total: int) -> None:
        """Take note of a finished step."""
        if self.first < 0 or done < self.first:  # a run that is rolled back goes on from an earlier step
            self.first, self.began = done, self.now()
        self.done, self.total = done, total

    def left(self) -> str:
        """Return the time left, as in 1:02:03 or 2:03; `?` before two steps have been seen.

        >>> times = iter([0.0, 10.0])
        >>> clock = Clock(lambda: next(times))
        >>> clock.tick(51, 100); clock.tick(52, 100)
        >>> clock.left()
        '8:00'
        """
        if self.done <= self.first or self.first < 0:
            return "?"
        seconds = (self.now() - self.began) / (self.done - self.first) * (self.total - self.done)
        minutes, seconds = divmod(math.ceil(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _lines(
    title: str,
    clock: Clock,
    describe: Callable[[Epoch], str],
    write: Callable[[str], None],
    note: Callable[[str], None],
) -> Watch:
    written = clock.now()

    def line(text: str) -> None:
        nonlocal written
        written = clock.now()
        write(f"{title}: {text}" + (f"  {clock.left()} left" if clock.done < clock.total else ""))

    def step(done: int, total: int) -> None:
        clock.tick(done, total)
        if clock.now() - written >= EVERY:
            line(f"step {done}/{total}")

    return Watch(step=step, epoch=lambda e: line(describe(e)), note=note)


@contextmanager
def _bar(
    console: Console,
    title: str,
    epochs: int,
    clock: Clock,
    describe: Callable[[Epoch], str],
    note: Callable[[str], None],
) -> Iterator[Watch]:
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=console.width // 3)),
        TextColumn("{task.fields[left]} left", style="cyan"),
        MofNCompleteColumn(),
    ]
    if console.width >= WIDE:
        columns.insert(1, BarColumn(bar_width=20))
    bar = Progress(*columns, console=console)
    last = Text(f"epoch 1/{epochs}", no_wrap=True, overflow="ellipsis")
    task = bar.add_task(title, total=None, left="?")

    def step(done: int, total: int) -> None:
        clock.tick(done, total)
        bar.update(task, completed=done, total=total, left=clock.left())

    def epoch(e: Epoch) -> None:
        last.plain = describe(e)

    with Live(Group(bar, last), console=console, refresh_per_second=4):
        yield Watch(step=step, epoch=epoch, note=note)


def _describe(e: Epoch, epochs: int, weighs: bool) -> str:
    """Return one line on an epoch; accuracies are left out where it was not judged."""
    parts = [f"epoch {e.epoch + 1}/{epochs}", f"loss {e.loss:.3f}"]
    if not math.isnan(e.robust):
        parts += [f"clean {e.clean:.1%}", f"PGD {e.robust:.1%}"]
    if weighs:
        parts.append(f"ESS {e.ess:.0%}")
    return "  ".join(parts)
