"""How far an evaluation is: a live bar on a terminal; elsewhere a plain line an attack, and one a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from bilaw.commands.progress import EVERY, Clock
from bilaw.evaluation.measure import Watch


@contextmanager
def evaluation_progress(console: Console, title: str, *, quiet: bool = False, audited: bool = True) -> Iterator[Watch]:
    """Show the share of the work that is done and the time left; each attack's accuracy as soon as it is known."""
    clock = Clock()

    def write(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    def known(name: str, accuracy: float, n: int) -> None:
        write(f"{name}: {accuracy:.2%} of {n}" + (", not audited yet" if audited else ""))

    def note(text: str) -> None:
        write(f"note: {text}")

    if quiet:
        yield Watch()
    elif console.is_terminal:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]} left", style="cyan"),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(title, total=None, left="?")

            def work(done: float, total: float) -> None:
                clock.tick(int(done), int(total))
                bar.update(task, completed=done, total=total, left=clock.left())

            yield Watch(work, known, note)
    else:
        written = clock.now()

        def step(done: float, total: float) -> None:
            nonlocal written
            clock.tick(int(done), int(total))
            if clock.now() - written >= EVERY:
                written = clock.now()
                write(f"{title}: {done / max(total, 1):.0%} done  {clock.left()} left")

        yield Watch(step, known, note)


@contextmanager
def probe_progress(console: Console, title: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many samples a report has looked at; nothing where all was known."""
    if not console.is_terminal:
        clock = Clock()
        written = [clock.now()]

        def step(done: int, total: int) -> None:
            clock.tick(done, total)
            if clock.now() - written[0] >= EVERY or done == total:
                written[0] = clock.now()
                console.print(f"{title}: looked at {done / total:.0%}", markup=False, highlight=False, soft_wrap=True)

        yield step
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"{title}: attacking held-out samples", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
