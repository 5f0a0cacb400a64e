"""One task, done in this process as `bilaw train` and `bilaw evaluate` would; killed, it goes on where it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

import torch

from bilaw.config import ComputeConfig
from bilaw.datasets.table import load as load_data
from bilaw.evaluation.evaluate import evaluate
from bilaw.evaluation.measure import Watch as EvaluationWatch
from bilaw.evaluation.trained import trained
from bilaw.files import explained, write_text
from bilaw.recipes.methods import names
from bilaw.reproduction.steps import time_steps
from bilaw.reproduction.tasks import Evaluate, Task, Time, Train
from bilaw.runs import Run
from bilaw.status import locked
from bilaw.training.fit import Interrupted, fit
from bilaw.training.watch import Watch

TOLD = 0.5  # seconds between two words on how far it is
DONE, FAILED, BUSY, STOPPED = "done", "failed", "busy", "stopped"
Tell = Callable[..., None]


class Stop(Exception):
    """Whoever started this asked for an end."""


def work(task: Task, out: Path, threads: int, told: Connection) -> None:
    """Do a task in a process of its own, and say on `told` how far it is and what came of it."""
    stopped = _stoppable()
    _end_with_parent()
    torch.set_num_threads(threads)
    with _log(out, task) as log:
        last = 0.0

        def tell(word: str, *more: Any) -> None:
            nonlocal last
            if word == "at":
                if time.monotonic() - last < TOLD:
                    return
                last = time.monotonic()
            else:
                print(word, *more, file=log, flush=True)
            told.send((word, *more))

        try:
            with _claim(out, task) as mine:
                if mine or task.done(out):
                    do(task, out, threads, tell, stopped)
                    tell(DONE)
                else:
                    tell(BUSY)
        except (Interrupted, Stop, KeyboardInterrupt):
            tell(STOPPED)
        except Exception as error:
            traceback.print_exc(file=log)
            tell(FAILED, " ".join(f"{type(error).__name__}: {error}".split()))


def do(task: Task, out: Path, threads: int, tell: Tell, stopped: list[int]) -> None:
    """Do what is left to do of a task."""
    if task.done(out):
        return
    if isinstance(task, Train):
        _train(task, out, threads, tell, stopped)
    elif isinstance(task, Evaluate):
        _evaluate(task, out, threads, tell, stopped)
    else:
        _time(task, out, tell)


def _train(task: Train, out: Path, threads: int, tell: Tell, stopped: list[int]) -> None:
    folder, config = out / task.folder, task.real(out)
    resume = Run(folder).config_file.is_file()
    watch = Watch(
        step=lambda done, total: tell("at", "train", done, total),
        note=lambda text: tell("note", text),
        stop=lambda: bool(stopped),
    )
    config = replace(config, compute=replace(config.compute, threads=threads))
    fit(config.model.name, config.data.name, None if resume else config, run=folder, resume=resume, watch=watch)


def _evaluate(task: Evaluate, out: Path, threads: int, tell: Tell, stopped: list[int]) -> None:
    run = Run(out / task.folder)
    config = run.config()
    data = load_data(config.data.name, config.data.root)
    model, omega = trained(run, data)

    def work(done: float, total: float) -> None:
        tell("at", "evaluate", done, total)
        if stopped:
            raise Stop

    evaluate(
        model,
        data,
        eps=config.attack.eps,
        norm=config.attack.norm,
        attacks=task.attacks(out),
        samples=task.measure.samples,
        audit=task.measure.audit,
        omega=omega,
        compute=ComputeConfig(threads=threads),
        out=run.path / task.place,
        watch=EvaluationWatch(work=work, note=lambda text: tell("note", text)),
        name=run.path.name,
        about={"method": names(config)[2], "seed": config.seed},
    )


def _time(task: Time, out: Path, tell: Tell) -> None:
    found = time_steps(task.configs, lambda done, total: tell("at", "time", done, total))
    write_text(task.file(out), json.dumps(found, indent=1) + "\n")


@contextmanager
def _claim(out: Path, task: Task) -> Iterator[bool]:
    """Give whether nobody else, started from elsewhere, is at this task; the system lets go of what a kill leaves."""
    folder = out / "locks"
    with explained(folder):
        folder.mkdir(exist_ok=True)
        with (folder / task.name).open("ab") as lock:
            yield locked(lock, shared=False)


@contextmanager
def _log(out: Path, task: Task) -> Iterator[IO[str]]:
    """Give the task's log, where whatever is printed goes, too."""
    folder = out / "logs"
    with explained(folder):
        folder.mkdir(exist_ok=True)
        with (folder / f"{task.name}.log").open("a", encoding="utf-8", errors="backslashreplace") as log:
            for number in (1, 2):
                os.dup2(log.fileno(), number)
            print(time.strftime("%Y-%m-%d %H:%M:%S"), "process", os.getpid(), file=log, flush=True)
            yield log
            print(f"{time.process_time():.2f} s of the processor", file=log)


def _stoppable() -> list[int]:
    """Return where SIGINT and SIGTERM are noted from now on, so that a step or a batch ends first."""
    caught: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: caught.append(number))
    return caught


def _end_with_parent() -> None:
    """End this process when whoever started it has been killed: what is saved is enough to go on from."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
