"""Sides of a claim, each in a process of its own, taking turns.

A program names its sides: `{"torchattacks": build, ...}`, where `build(case)` makes a `Job` of a dictionary of
plain values. `turns` starts a process for each, all children of this one and with the same number of threads, lets
each run once unmeasured, and then once a round; so a busy machine is busy for all of them. Processes of their own
keep what one side does to PyTorch, to the module or to the allocator from the others, and each has its own peak.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from machine import facts, forget_peak, resident, tidy, versions
from passes import COUNTERS, synchronise
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
RESULTS, QUICK = ROOT / "benchmarks/results", ROOT / "build/bench-quick"
WARM, PATIENCE, BRIEF = "deep", 600.0, 30.0


class Job(NamedTuple):
    """What a side does when it is its turn."""

    run: Callable[[], Any]  # what is timed
    module: nn.Module | None = None  # whose passes are counted
    facts: Callable[[Any], dict[str, Any]] = lambda result: {}  # what is told of its result, untimed


Build = Callable[[dict[str, Any]], Job]


@dataclass(frozen=True)
class Side:
    """One side: the name of its builder, the case, and what its process's environment has beside the parent's."""

    build: str
    case: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)
    warm: str | None = WARM  # how passes are counted in the unmeasured run; None: there is no such run
    count: str | None = None  # how they are counted in the first measured one


class Worker:
    """A side's process."""

    def __init__(self, side: Side, threads: int, program: str | None = None) -> None:
        self.side = side
        case = json.dumps({"device": "cpu", **side.case, "threads": threads})
        command = [sys.executable, program or sys.argv[0], "--worker", side.build, "--case", case]
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "TQDM_DISABLE": "1", **side.env}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self._answer()

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """Have it done, and return what came of it."""
        assert self.process.stdin is not None
        print(json.dumps({"do": what, **more}), file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.end()
            raise SystemExit(f"{self.side.build}: its process ended (exit {self.process.returncode}); see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Let the process end: there is nothing more for it to read."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def serve(builders: Mapping[str, Build], name: str, case: dict[str, Any]) -> None:
    """Be a side's process: build, then do as told, line by line."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # peers print what they do
    torch.set_num_threads(case["threads"])
    job = builders[name](case)
    print(json.dumps({}), file=told, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        answer = peak(job) if order["do"] == "peak" else measured(job, order.get("count"), case["device"])
        print(json.dumps(answer), file=told, flush=True)


def measured(job: Job, count: str | None, device: str) -> dict[str, Any]:
    """Run once: seconds by the clock and of the processor (all threads of it), passes if they are to be counted."""
    with nullcontext() if count is None or job.module is None else COUNTERS[count](job.module) as passes:
        synchronise(device)
        wall, cpu = time.perf_counter(), time.process_time()
        result = job.run()
        synchronise(device)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    answer: dict[str, Any] = {"wall": wall, "cpu": cpu, "facts": job.facts(result)}
    return answer if passes is None else {**answer, "passes": passes.told()}


def peak(job: Job, runs: int = 2) -> dict[str, Any]:
    """Return the MiB that running adds at its peak to what is there before (on a GPU: that PyTorch allocated).

    One run goes before: what it loads once and for all is not what running takes.
    """
    job.run()
    tidy()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        before = resident("VmRSS")
        forget_peak()
    for _ in range(runs):
        job.run()
    if torch.cuda.is_available():
        return {"mib": (torch.cuda.max_memory_allocated() - before) / 2**20}
    return {"mib": resident("VmHWM") - before}


class Taken(NamedTuple):
    """What a side's turns came to."""

    rounds: list[dict[str, Any]]
    passes: dict[str, int] | None
    facts: dict[str, Any]


def turns(sides: Mapping[str, Side], rounds: int, threads: int, patience: float = PATIENCE) -> dict[str, Taken]:
    """Let the sides take turns; one that has had `patience` seconds takes no more of them, but always one."""
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(side, threads)) for name, side in sides.items()}
        passes: dict[str, dict[str, int] | None] = dict.fromkeys(sides)
        for name, worker in workers.items():
            if worker.side.warm is not None:
                say(f"{name}: unmeasured run")
                passes[name] = worker.ask("run", count=worker.side.warm).get("passes")
        taken: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
        order = list(workers)
        for turn in range(rounds):
            for name in order[turn % len(order) :] + order[: turn % len(order)]:
                if sum(one["wall"] for one in taken[name]) > patience:
                    continue
                count = None if turn else workers[name].side.count
                taken[name].append(workers[name].ask("run", count=count))
                say(f"{name}: {taken[name][-1]['cpu']:.3f} s")
        first = {name: passes[name] or values[0].get("passes") for name, values in taken.items()}
        return {name: Taken(values, first[name], values[-1]["facts"]) for name, values in taken.items()}


def fastest(candidates: Mapping[str, Mapping[Any, Side]], threads: int) -> dict[str, Side]:
    """Return, of each name's candidates (batch sizes, say), the side that took the least processor time in one run."""
    chosen = {}
    for name, sides in candidates.items():
        if len(sides) == 1:
            chosen[name] = next(iter(sides.values()))
            continue
        spent = {}
        for key, side in sides.items():
            with Worker(side, threads) as worker:
                spent[key] = worker.ask("run")["cpu"]
                if spent[key] < BRIEF:  # the first run of a process is slower than the others
                    spent[key] = worker.ask("run")["cpu"]
            say(f"{name}, {key}: {spent[key]:.3f} s")
        chosen[name] = sides[min(spent, key=lambda key: spent[key])]
    return chosen


def memory(sides: Mapping[str, Side], threads: int, processes: int = 3) -> dict[str, list[float]]:
    """Return the peak memory of each side, in processes of its own, which take turns."""
    peaks: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(processes):
        for name, side in sides.items():
            with Worker(side, threads) as worker:
                peaks[name].append(worker.ask("peak")["mib"])
    return peaks


def say(text: str) -> None:
    """Tell on standard error how it goes."""
    print(text, file=sys.stderr, flush=True)


def arguments(about: str | None, rounds: int = 5, **more: dict[str, Any]) -> argparse.Namespace:
    """Read the command line that every program has, and `more` of its own."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--rounds", type=int, help=f"default: {rounds}, with --quick 3")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="folder of the results (default: benchmarks/results)")
    parser.add_argument("--name", help="what the results are called, if not after the program")
    for name, options in more.items():
        parser.add_argument(f"--{name}", **options)
    read = parser.parse_args()
    read.rounds = read.rounds or (3 if read.quick else rounds)
    read.out = read.out or (QUICK if read.quick else RESULTS)
    torch.set_num_threads(read.threads)
    return read


def entered(builders: Mapping[str, Build], main: Callable[[], None]) -> None:
    """Be the program, or one of its sides."""
    argv: Sequence[str] = sys.argv
    if "--worker" in argv:
        serve(builders, argv[argv.index("--worker") + 1], json.loads(argv[argv.index("--case") + 1]))
    else:
        main()


def head(claim: str, read: argparse.Namespace, *peers: str) -> dict[str, Any]:
    """Return what every file of results begins with."""
    device = getattr(read, "device", "cpu")
    return {
        "claim": read.name or claim,
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *map(named, sys.argv[1:])]),
        "quick": read.quick,
        "rounds": read.rounds,
        "threads": read.threads,
        "machine": facts(device),
        "versions": versions(*peers),
        "cases": [],
    }


def named(argument: str) -> str:
    """Return an argument as the results tell it: of a path elsewhere only its name."""
    return Path(argument).name if argument.startswith("/") else argument
