"""What a task takes on this machine, before it begins: network passes by count, seconds a pass by a quick timing.

A pass is one image forward; backward counts as one for the image alone, as two for the parameters
(docs/performance.md). Memory is counted from the sizes of what the network remembers.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bilaw.config import Config
from bilaw.datasets.data import shape_of
from bilaw.datasets.digits import TEST_SIZE
from bilaw.datasets.known import KNOWN
from bilaw.datasets.splits import default_size
from bilaw.datasets.table import load as load_data
from bilaw.evaluation.attack_checks import PASSES
from bilaw.evaluation.suites import suite
from bilaw.models.own import load_model
from bilaw.recipes.protocol import Measure
from bilaw.reproduction.steps import ROUNDS
from bilaw.reproduction.tasks import Evaluate, Task, Time, Train
from bilaw.training.device import computing, resolve
from bilaw.weighting import Omega

QUICK = 1.0  # seconds of a timing, or thereabouts: the shortest of several, for others may be at work
LARGE = 128  # images, the paper's batch
BARE = 500.0  # MiB of a process that has done nothing
SPARE = 0.8  # of the memory that is free may be taken
SURVIVE = 0.6  # share of the samples that most attacks of an ensemble are run on: those not broken yet


class Pace(NamedTuple):
    """One model on images of one shape, on this machine."""

    seconds: float  # a pass
    mib: float  # that a sample's activations take
    weights: float  # MiB of the parameters


class Size(NamedTuple):
    """A data set, as far as costs go."""

    train: int
    test: int
    shape: tuple[int, int, int]
    classes: int


@cache
def size(data: str) -> Size:
    """Return how large a data set is; the paper's are known without being there."""
    if data in KNOWN:
        known = KNOWN[data]
        return Size(*known.images, known.shape, known.classes)
    if data == "digits":
        return Size(1797 - TEST_SIZE, TEST_SIZE, (1, 8, 8), 10)
    held = load_data(data)
    test = len(held.test.y) if held.test else 0
    return Size(len(held.train.y), test, shape_of(held.train), len(held.classes))


@cache
def pace(model: str, data: str, threads: int) -> Pace:
    """Time forward and gradient of the images, on as large a batch as a moment allows."""
    about = size(data)
    module = load_model(model, about.shape, about.classes, 0).eval()
    compute = resolve(Config().compute, module)
    device = torch.device(compute.device or "cpu")
    module.to(device)
    with computing(replace(compute, threads=threads)):
        batch, _ = 1, _timed(module, about.shape, 1, device)  # the first warms up
        taken = _timed(module, about.shape, 1, device)
        while batch < LARGE and 4 * taken < QUICK / 9:
            batch = min(4 * batch, LARGE)
            taken = min(_timed(module, about.shape, batch, device) for _ in range(9))
        seconds = taken / (2 * batch)
    weights = sum(value.numel() for value in module.parameters()) * 4 / 2**20
    return Pace(seconds, _activations(module, about.shape, device), weights)


def _timed(module: nn.Module, shape: tuple[int, int, int], batch: int, device: torch.device) -> float:
    x = torch.rand(batch, *shape, device=device, requires_grad=True)
    began = time.perf_counter()
    torch.autograd.grad(module(x).sum(), x)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def _activations(module: nn.Module, shape: tuple[int, int, int], device: torch.device) -> float:
    """Return the MiB that one image's activations take, layer by layer."""
    counted = 0

    def note(layer: nn.Module, inputs: object, out: object) -> None:
        nonlocal counted
        if isinstance(out, Tensor) and not list(layer.children()):
            counted += out.numel() * out.element_size()

    hooks = [layer.register_forward_hook(note) for layer in module.modules()]
    with torch.no_grad():
        module(torch.rand(1, *shape, device=device))
    for hook in hooks:
        hook.remove()
    return counted / 2**20


def seconds(task: Task, threads: int) -> float:
    """Return how long a task takes, to within a factor of two or so."""
    if isinstance(task, Time):
        return sum(_step(config, threads) for config in task.configs) * (ROUNDS + 1)
    config = task.config if isinstance(task, Train) else task.train.config
    about, one = size(config.data.name), pace(config.model.name, config.data.name, threads)
    if isinstance(task, Evaluate):
        return _measured(task.measure, config, about) * one.seconds * 2 / 3  # attacks count backward as two
    held_out = config.data.select or default_size(about.train)
    learnt = config.data.train or about.train - held_out - config.scheme.learns * held_out
    looks = config.optim.epochs / config.select.every * held_out * (2 * config.select.steps + 1)
    steps = config.optim.epochs * learnt / config.optim.batch
    return steps * _step(config, threads) + looks * one.seconds


def _step(config: Config, threads: int) -> float:
    one = pace(config.model.name, config.data.name, threads)
    return one.seconds * passes(config) * config.optim.batch


def passes(config: Config) -> float:
    """Return how many passes a training step takes for each of its samples.

    >>> from bilaw.recipes.methods import method
    >>> passes(method("plain")), passes(method("at")), passes(method("bilaw"))
    (3.0, 23.0, 52.0)
    """
    if config.loss.name == "plain":
        return 3.0
    forwards = 1 if config.loss.name == "adversarial-ce" else 2  # of the loss: at x', and for others at x

    def attack(name: str) -> float:
        return (2.0 * config.attack.steps if name == "pgd" else 2.0) + (forwards - 1)

    total = config.attack.fraction * attack(config.attack.name) + 3 * forwards + (config.attack.fraction < 1)
    if config.scheme.learns:
        share = config.meta.batch / config.optim.batch
        total += share * (attack(config.meta.attack or config.attack.name) + 3 * forwards)
        total += (forwards == 1) + 2 * forwards + 3 * forwards  # clean margins, line 5, line 6's forward mode
    return total


def _measured(measure: Measure, config: Config, about: Size) -> float:
    """Return the passes of an evaluation."""
    samples = min(measure.samples or about.test, about.test)
    total = 0.0
    for name in measure.attacks:
        if name.startswith("weight-aware"):
            total += samples * (3 * int(name.partition(":")[0].rpartition("-")[2]) + 1)
            continue
        costs = suite(name, config.attack.eps, config.attack.norm, _none).passes()
        total += samples * sum(cost * (SURVIVE if place else 1.0) for place, cost in enumerate(costs.values()))
    return total + measure.audit * PASSES


def _none(run: str | None) -> Omega:
    raise AssertionError("weight-aware attacks are counted by their names")


def memory(task: Task, threads: int) -> float:
    """Return the MiB a task holds at most: its data, its parameters several times, one or two graphs of a batch."""
    configs = (
        task.configs if isinstance(task, Time) else (task.config if isinstance(task, Train) else task.train.config,)
    )
    total = BARE
    for config in configs:
        about, one = size(config.data.name), pace(config.model.name, config.data.name, threads)
        graphs = 3.0 if config.scheme.learns else 2.0
        total += (about.train + about.test) * math.prod(about.shape) / 2**20
        total += 6 * one.weights + graphs * config.optim.batch * one.mib
    return total


def free() -> float:
    """Return the MiB that may be taken: of a GPU's memory where there is one, else of this machine's."""
    if torch.cuda.is_available():
        return SPARE * torch.cuda.mem_get_info()[0] / 2**20
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123 - no file of ours
            held = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
        return SPARE * held / 2**10
    except (OSError, StopIteration, ValueError):
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4 * 2**30
        return SPARE * pages / 2**20 / 2


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


SHARED = 4  # processes on one GPU: small networks leave most of it idle, more would only wait


def crew(tasks: int, asked: int | None, gpu: bool) -> tuple[int, int]:
    """Return how many processes work at a time, and on how many threads each.

    Two processes of one thread do more than one of two, and more than one thread pays little below four
    (docs/performance.md): so they get more only where there are that many cores for each task.

    >>> crew(1, 4, gpu=False)[0], crew(100, 3, gpu=False)
    (1, (3, 1))
    """
    have = cores()
    jobs = max(1, min(asked or (min(have, SHARED) if gpu else have), tasks))
    each = have // jobs
    return jobs, each if each >= 4 and asked is None else 1
