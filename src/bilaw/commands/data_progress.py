"""How getting a data set shows: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from bilaw.datasets.sources.offers import Watch

EVERY = 10.0  # seconds between plain lines


@contextmanager
def getting(console: Console, name: str) -> Iterator[Watch]:
    """Show notes as lines, and how many bytes of what have come."""

    def note(text: str) -> None:
        console.print(f"{name}: {text}", markup=False, highlight=False, soft_wrap=True)

    if not console.is_terminal:
        yield Watch(note, plain(note))
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[size]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task, last = bar.add_task("", total=None, visible=False, size=""), ""

        def amount(what: str, done: int, total: int) -> None:
            nonlocal last
            if what != last:
                bar.reset(task, description=what, visible=True)
            last = what
            bar.update(task, completed=done, total=total or None, size=size(done, total))

        yield Watch(note, amount)


def plain(note: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> Callable[[str, int, int], None]:
    """Return an `amount` that writes a line now and then, and none for what is quick.

    >>> times = iter([0.0, 1.0, 11.0])
    >>> amount = plain(print, lambda: next(times))
    >>> amount("a", 1_000_000, 0); amount("a", 2_000_000, 0)
    a: 2.0 MB
    """
    before = now()

    def amount(what: str, done: int, total: int) -> None:
        nonlocal before
        if (moment := now()) - before >= EVERY:
            before = moment
            note(f"{what}: {size(done, total)}")

    return amount


def size(done: int, total: int) -> str:
    """Return how much has come, of how much if that is known.

    >>> size(0, 0), size(2_000_000, 0), size(2_000_000, 30_730_000)
    ('', '2.0 MB', '2.0 of 30.7 MB')
    """
    if not done:
        return ""
    return f"{done / 1e6:.1f} of {total / 1e6:.1f} MB" if total else f"{done / 1e6:.1f} MB"
