"""Tasks worked off by local processes: each once, what it needs first, as many at a time as cores and memory allow."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bilaw.reproduction.tasks import Evaluate, Task, Time
from bilaw.reproduction.work import BUSY, DONE, FAILED, work

LIVES = 3  # times that a task is begun whose process is killed
PAUSE = 10.0  # seconds before a task is asked for again that another command is at
POLL = 1.0  # seconds between two looks at the clock
GRACE = 120.0  # seconds that processes get to end a step or a batch, when asked to stop
QUIET = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "MKL_NUM_THREADS": "1"}
PRELOADED = "bilaw.reproduction.preloaded"


class Event(NamedTuple):
    """What happened to a task: begun, at, note, done, found (done before), failed, killed, busy, left."""

    kind: str
    task: Task
    more: tuple[Any, ...] = ()


@dataclass
class Running:
    """A process at work on a task."""

    task: Task
    process: Any
    told: Connection
    memory: float  # MiB it is expected to take at most
    said: tuple[Any, ...] = ()  # its last word but for how far it is


@dataclass
class Grid:
    """Everything there is to do, and what has become of it."""

    out: Path
    tasks: Mapping[str, Task]
    jobs: int
    threads: int
    memory: Callable[[Task], float]  # MiB a task takes
    budget: float  # MiB there are
    watch: Callable[[Event], None] = lambda event: None
    outcome: dict[str, str] = field(default_factory=dict)  # "done", or why not
    running: dict[str, Running] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    later: dict[str, float] = field(default_factory=dict)  # when to ask again for what others are at

    def run(self) -> dict[str, str]:
        """Work until all is done that can be, and return what became of each task."""
        for name, task in self.tasks.items():
            if task.done(self.out):
                self._end(name, DONE, Event("found", task))
        with _workers() as context:
            try:
                while self._ahead() or self.running:
                    self._begin(context)
                    self._listen()
            finally:
                self._stop()
        return self.outcome

    def _ahead(self) -> list[str]:
        return [name for name in self.tasks if name not in self.outcome and name not in self.running]

    def _begin(self, context: Any) -> None:
        for name in self._ready():
            task, memory = self.tasks[name], self.memory(self.tasks[name])
            if name in self.later and task.done(self.out):
                self._end(name, DONE, Event("found", task))
                continue
            alone = isinstance(task, Time)  # nothing of ours may run beside it
            beside = list(self.running.values())
            if any(isinstance(one.task, Time) for one in beside) or (alone and beside):
                continue
            if beside and (len(beside) >= self.jobs or memory + sum(one.memory for one in beside) > self.budget):
                continue
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(task, self.out, self.threads, theirs), daemon=True)
            process.start()
            theirs.close()
            self.running[name] = Running(task, process, mine, memory)
            self.lives[name] = self.lives.get(name, 0) + 1
            self.watch(Event("begun", task, (process.pid,)))

    def _ready(self) -> list[str]:
        """Return what may begin: what measures a finished run first, so that tables fill up early."""
        ready = []
        for name in self._ahead():
            task = self.tasks[name]
            missing = [need for need in task.after if self.outcome.get(need, DONE) != DONE]
            if missing:
                self._end(name, f"needs {missing[0]}, which failed", Event("left", task))
            elif all(need in self.outcome for need in task.after) and self.later.get(name, 0) <= time.monotonic():
                ready.append(name)
        return sorted(ready, key=lambda name: not isinstance(self.tasks[name], Evaluate))

    def _listen(self) -> None:
        """Hear what the processes say, until one ends or a moment has passed."""
        held = {one.told: name for name, one in self.running.items()}
        ends = {one.process.sentinel: name for name, one in self.running.items()}
        if not held:
            time.sleep(0.1)
        for thing in wait([*held, *ends], timeout=POLL):
            if isinstance(thing, Connection):
                self._hear(held[thing])
        for name in [name for sentinel, name in ends.items() if name in self.running and self._over(name)]:
            self._close(name)

    def _over(self, name: str) -> bool:
        return not self.running[name].process.is_alive()

    def _hear(self, name: str) -> None:
        one = self.running[name]
        with contextlib.suppress(EOFError, OSError):
            while one.told.poll():
                word, *more = one.told.recv()
                if word in ("at", "note"):
                    self.watch(Event(word, one.task, tuple(more)))
                else:
                    one.said = (word, *more)

    def _close(self, name: str) -> None:
        """Draw the conclusion of a process that has ended."""
        self._hear(name)
        one = self.running.pop(name)
        one.process.join()
        code = one.process.exitcode
        one.told.close()
        one.process.close()
        if one.said and one.said[0] == DONE:
            self._end(name, DONE, Event("done", one.task))
        elif one.said and one.said[0] == BUSY:
            first = name not in self.later
            self.later[name], self.lives[name] = time.monotonic() + PAUSE, 0
            self.watch(Event("busy", one.task, (first,)))
        elif one.said and one.said[0] == FAILED:
            self._end(name, str(one.said[1]), Event("failed", one.task, one.said[1:]))
        elif self.lives[name] < LIVES:  # killed, or asked to stop by somebody else than us
            self.watch(Event("killed", one.task, (code,)))
        else:
            why = f"its process was killed {LIVES} times, at last with status {code}"
            self._end(name, why, Event("failed", one.task, (why,)))

    def _end(self, name: str, outcome: str, event: Event) -> None:
        self.outcome[name] = outcome
        self.watch(event)

    def _stop(self) -> None:
        """Ask every process to save and end, and wait for it; interrupted once more, end them at once."""
        processes = [one.process for one in self.running.values()]
        for process in processes:
            process.terminate()
        until = time.monotonic() + GRACE
        try:
            for process in processes:
                process.join(max(0.0, until - time.monotonic()))
        finally:
            for process in processes:
                process.kill()
                process.join()
            self.running.clear()


@contextlib.contextmanager
def _workers() -> Iterator[Any]:
    """Give what starts processes: forks of one that has imported everything and done nothing, where there is fork.

    CUDA does not bear forks: there each process is a new one. One thread each unless told otherwise, and threads that
    wait sleep: see docs/performance.md.
    """
    forks = "forkserver" in multiprocessing.get_all_start_methods() and not torch.cuda.is_available()
    context = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload([PRELOADED])
    before = {name: os.environ.get(name) for name in QUIET}
    os.environ.update({name: os.environ.get(name) or value for name, value in QUIET.items()})
    try:
        yield context
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


QUIET = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "MKL_NUM_THREADS": "1"}
