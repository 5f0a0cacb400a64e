"""One BiLAW step against one AT step (and TRADES likewise): time and peak memory, both sides in one run.

    python benchmarks/step.py [--model small-cnn] [--batch 128] [--rounds 7] [--threads 1]

Time: the sides alternate, round by round, in one process; the median and the spread of each are printed, and the
ratio of medians. It is the processor's time: on a machine that others use as well, the clock's tells of them.
Memory: each side runs in processes of its own, three in turn, of which the median counts; the figure is the peak of
its resident set in two steps less what was resident just before them.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch.nn import Module

from bilaw.algorithm import Method, bilaw_step, weighted_step
from bilaw.attacks import PGD
from bilaw.losses import AdversarialCE, Trades
from bilaw.models import build
from bilaw.net import Net
from bilaw.types import Batch, Loss
from bilaw.weighting import Learned, Omega, WeightNet

SHAPES = {"tiny-cnn": (1, 28, 28), "fc1": (1, 28, 28)}
PROCESSES = 3
SIDES = ("at", "bilaw", "trades", "bilaw-trades")


class Side:
    """One method, ready to take steps on data of its own."""

    def __init__(self, name: str, model: str, size: int) -> None:
        shape = SHAPES.get(model, (3, 32, 32))
        module: Module = build(model, shape, 10, seed=0)
        self.net = Net(module)
        self.optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=2e-4)
        loss: Loss = Trades() if "trades" in name else AdversarialCE()
        attack = PGD(8 / 255, steps=10, objective=loss.objective, start=loss.start)
        generator = torch.Generator().manual_seed(0)
        self.batches = [
            Batch(
                torch.rand(size, *shape, generator=generator),
                torch.randint(10, (size,), generator=generator),
                torch.arange(size),
            )
            for _ in range(2)
        ]
        self.meta = name.startswith("bilaw")
        self.method = Method(loss, attack)
        if self.meta:
            network = WeightNet(10)
            scheme = Learned(Omega(network), torch.optim.Adam(network.parameters(), lr=1e-3))
            self.method = Method(loss, attack, scheme)
        self.t = 0

    def step(self) -> None:
        batch, validation = self.batches
        if self.meta:
            bilaw_step(self.net, self.optimizer, batch, validation, self.method, 0, self.t)
        else:
            weighted_step(self.net, self.optimizer, batch, self.method, 0, self.t)
        self.t += 1


def peak_memory(name: str, model: str, size: int) -> float:
    """Return the MiB a step adds to the resident set at its peak. Runs in a process of its own."""
    side = Side(name, model, size)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of importing and building
    for _ in range(2):
        side.step()
    return resident("VmHWM") - before


def resident(which: str) -> float:
    """Return the MiB resident now (VmRSS) or at most (VmHWM); Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="small-cnn")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--memory-of", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.memory_of:
        print(peak_memory(arguments.memory_of, arguments.model, arguments.batch))
        return
    sides = {name: Side(name, arguments.model, arguments.batch) for name in arguments.sides}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(arguments.rounds + 1):
        for name, side in sides.items():
            began = time.process_time()
            side.step()
            if turn:  # the first round warms up
                seconds[name].append(time.process_time() - began)
    peaks: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(PROCESSES):
        for name, values in peaks.items():
            command = [sys.executable, __file__, "--memory-of", name, "--model", arguments.model]
            command += ["--batch", str(arguments.batch), "--threads", str(arguments.threads)]
            values.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    memory = {name: statistics.median(values) for name, values in peaks.items()}
    print(
        f"{arguments.model}, batch {arguments.batch}, PGD-10, {arguments.threads} thread(s), torch {torch.__version__}"
    )
    print(f"{platform.machine()} {platform.processor() or ''}, Python {platform.python_version()}")
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        print(
            f"{name:13} {middle[name]:8.3f} s a step  [{min(values):.3f}, {max(values):.3f}]  {memory[name]:7.0f} MiB"
        )
    ratios = {
        f"{meta} / {base}": {"time": middle[meta] / middle[base], "memory": memory[meta] / memory[base]}
        for base, meta in (("at", "bilaw"), ("trades", "bilaw-trades"))
        if {base, meta} <= set(sides)
    }
    print(json.dumps(ratios, indent=1))


if __name__ == "__main__":
    main()
