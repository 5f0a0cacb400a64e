"""What a step of each of several runs costs, all in turns in one process: whatever else the machine does hits all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from bilaw.algorithm import bilaw_step, weighted_step
from bilaw.config import Config
from bilaw.datasets.data import shape_of
from bilaw.datasets.table import load as load_data
from bilaw.models.own import load_model
from bilaw.training.build import build_method
from bilaw.training.device import computing, resolve
from bilaw.training.setup import Setup
from bilaw.types import MetaScheme

ROUNDS, LEAST = 25, 5  # turns; at least as many, however long they take
BUDGET = 120.0  # seconds after which the least will do


class Stepper:
    """A run that takes steps, and is never asked what came of them."""

    def __init__(self, config: Config) -> None:
        data = load_data(config.data.name, config.data.root)
        model = load_model(config.model.name, shape_of(data.train), len(data.classes), config.seed)
        self.config = replace(config, compute=resolve(config.compute, model))
        self.setup = Setup(model, data, self.config)
        self.method = build_method(self.config, self.setup.weighting.scheme)
        self.t = 0

    def step(self) -> float:
        """Take a step, and return its seconds: the processor's on a CPU, which others may be using as well."""
        setup, seed = self.setup, self.config.seed
        setup.optimizer.param_groups[0]["lr"] = self.config.optim.lr
        batch = setup.feed.train.at(0, self.t % len(setup.feed.train))
        began = _now(setup.device)
        if setup.feed.meta and isinstance(self.method.scheme, MetaScheme):
            validation = setup.feed.meta.cycle(self.t)
            bilaw_step(setup.net, setup.optimizer, batch, validation, self.method, seed, self.t)
        else:
            weighted_step(setup.net, setup.optimizer, batch, self.method, seed, self.t)
        self.t += 1
        return _now(setup.device) - began


def time_steps(configs: Sequence[Config], tell: Callable[[int, int], None]) -> dict[str, Any]:
    """Return the seconds of each run's steps, turn by turn, the first of all left out: it warms up."""
    threads = torch.get_num_threads()
    with computing(replace(configs[0].compute, threads=threads)):
        steppers = [Stepper(config) for config in configs]
        seconds: list[list[float]] = [[] for _ in steppers]
        began = time.monotonic()
        for turn in range(ROUNDS + 1):
            for stepper, held in zip(steppers, seconds, strict=True):
                taken = stepper.step()
                if turn:
                    held.append(taken)
            tell(turn, ROUNDS)
            if turn >= LEAST and time.monotonic() - began > BUDGET:
                break
    return {
        "seconds": seconds,
        "median": [statistics.median(held) for held in seconds],
        "threads": threads,
        "device": str(steppers[0].setup.device),
        "torch": torch.__version__,
    }


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.process_time() if device.type == "cpu" else time.perf_counter()
