"""A live bar on a terminal, a plain line an epoch elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from bilaw.training.fit import Epoch, Watch


@contextmanager
def training_progress(console: Console, title: str, epochs: int) -> Iterator[Watch]:
    """Show epoch, loss, clean and PGD accuracy on *select*, and the time left."""
    if console.is_terminal:
        with Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
        ) as progress:
            task = progress.add_task(title, total=None, note=f"epoch 1/{epochs}")
            yield Watch(
                step=lambda done, total: progress.update(task, completed=done, total=total),
                epoch=lambda e: progress.update(task, note=_note(e, epochs)),
            )
    else:
        began = time.monotonic()

        def line(e: Epoch) -> None:
            left = (time.monotonic() - began) / (e.epoch + 1) * (epochs - e.epoch - 1)
            console.print(f"{title}: {_note(e, epochs)}  {left:.0f} s left", highlight=False)

        yield Watch(step=lambda done, total: None, epoch=line)


def _note(e: Epoch, epochs: int) -> str:
    return f"epoch {e.epoch + 1}/{epochs}  loss {e.loss:.3f}  clean {e.clean:.1%}  PGD {e.robust:.1%}"
