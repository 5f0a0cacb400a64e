"""How the cost grows: with samples, steps and targets up to tenfold, and memory with the size of the data set.

    python benchmarks/growth.py [--quick] [--rounds 5] [--threads 2] [--model tiny-cnn]

Linear means that ten times the work costs ten times the processor time (the exponent of a line through the logarithms
is 1); less is better, for what is done once is spread over more. Networks are untrained and every sample stays:
an eps of 1e-6 breaks none, so all of the work is done. Memory: `bilaw.fit` on noise of 28x28x1, plain training, in
processes of their own; the peak above what was there before, less the bytes of the images themselves.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from harness import Job, Side, arguments, entered, head, memory, turns
from machine import KEEPING
from outcomes import keep, outcome

from bilaw import fit
from bilaw.attacks import PGD
from bilaw.attacks.autoattack import APGD, FAB, Square
from bilaw.config import Config, DataConfig, LogConfig, LossConfig, OptimConfig, SelectConfig
from bilaw.datasets.data import Dataset, Images
from bilaw.models import build as build_model
from bilaw.rng import generator
from bilaw.types import Batch

SHAPES = {"tiny-cnn": (1, 28, 28), "small-cnn": (3, 32, 32)}
SAFE, BATCH = 1e-6, 100
TIMES = (1, 2, 5, 10)
# What grows: the case's key, its value at 1, and the largest
GROWING: dict[str, tuple[str, dict[str, Any]]] = {
    "samples, PGD-20": ("samples", {"attack": "pgd", "steps": 20}),
    "steps, PGD": ("steps", {"attack": "pgd", "samples": 100}),
    "steps, APGD-CE": ("steps", {"attack": "apgd-ce", "samples": 100}),
    "targets, APGD-T": ("targets", {"attack": "apgd-t", "steps": 10, "samples": 100}),
    "targets, FAB-T": ("targets", {"attack": "fab-t", "steps": 10, "samples": 100}),
    "queries, Square": ("queries", {"attack": "square", "samples": 100}),
}
UNITS = {"samples": 100, "steps": 10, "targets": 1, "queries": 100}
SLACK = 1.1  # an exponent up to this is linear


def attack_of(case: dict[str, Any]) -> Any:
    """Return the attack."""
    steps, targets = case.get("steps", 10), case.get("targets", 9)
    return {
        "pgd": lambda: PGD(SAFE, steps=steps),
        "apgd-ce": lambda: APGD(SAFE, "linf", "ce", steps=steps),
        "apgd-t": lambda: APGD(SAFE, "linf", "targeted-dlr", steps=steps, targets=targets),
        "fab-t": lambda: FAB(SAFE, "linf", steps=steps, targets=targets),
        "square": lambda: Square(SAFE, "linf", queries=case["queries"]),
    }[case["attack"]]()


def build(case: dict[str, Any]) -> Job:
    """Return an attack on samples that it cannot break."""
    shape = SHAPES[case["model"]]
    module = build_model(case["model"], shape, 11, seed=0).eval()  # one class for each of ten targets
    x = torch.rand(case["samples"], *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = torch.cat([module(part) for part in x.split(BATCH)]).argmax(dim=1)
    attack = attack_of(case)

    def run() -> None:
        for start in range(0, len(x), BATCH):
            part = torch.arange(start, min(start + BATCH, len(x)))
            attack(module, Batch(x[part], y[part], part), generator(0, "growth", start))

    return Job(run, module)


def training(case: dict[str, Any]) -> Job:
    """Return a run on so many images of noise; it is what the memory is taken of."""
    n = case["samples"]
    drawn = torch.Generator().manual_seed(0)
    x = torch.randint(256, (n, 1, 28, 28), dtype=torch.uint8, generator=drawn)
    data = Dataset("noise", Images(x, torch.arange(n) % 10), None, tuple("0123456789"), augment=False)
    quiet = {"log": LogConfig(to=(), weights_every=0), "select": SelectConfig(every=1, steps=1)}
    held = DataConfig(name="noise", meta=100, select=100)
    config = Config(data=held, loss=LossConfig("plain"), optim=OptimConfig(epochs=1, lr=0.01), **quiet)
    module = build_model("tiny-cnn", (1, 28, 28), 10, seed=0)
    return Job(lambda: fit(module, data, config))


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of the line through the logarithms, by least squares.

    >>> round(exponent([1, 2, 4], [3.0, 6.0, 12.0]), 3), round(exponent([1, 10], [1.0, 100.0]), 3)
    (1.0, 2.0)
    """
    a, b = ([math.log(value) for value in values] for values in (sizes, seconds))
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    across = sum((p - mean_a) * (q - mean_b) for p, q in zip(a, b, strict=True))
    return across / sum((p - mean_a) ** 2 for p in a)


def main() -> None:
    read = arguments(__doc__, model={"default": "tiny-cnn"})
    results = head("growth", read)
    times = (1, 10) if read.quick else TIMES
    chosen = list(GROWING.items())[::3] if read.quick else GROWING.items()
    for name, (what, fixed) in chosen:
        sizes = [UNITS[what] * k for k in times]
        common = {"model": read.model, **fixed}
        sides = {f"{size} {what}": Side("build", {**common, what: size}, KEEPING) for size in sizes}
        taken = turns(sides, read.rounds, read.threads)
        told = {side: outcome(one) for side, one in taken.items()}
        medians = [side["cpu"]["median"] for side in told.values()]
        slope = exponent(sizes, medians)
        note = f"tenfold costs {medians[-1] / medians[0]:.2f} times as much, exponent {slope:.2f}; "
        note += f"target: linear: {'met' if slope <= SLACK else 'missed'}"
        results["cases"].append({"title": f"{read.model}: {name}", "case": common, "sides": told, "notes": [note]})
        keep(results, read.out)
    sizes = [1_000, 10_000] if read.quick else [6_000, 60_000]
    peaks = memory(
        {f"{n} images": Side("training", {"samples": n}) for n in sizes}, read.threads, 1 if read.quick else 3
    )
    rows = []
    for n, values in zip(sizes, peaks.values(), strict=True):
        most, held = sorted(values)[len(values) // 2], n * 28 * 28 / 2**20
        rows.append({"images": n, "their MiB": held, "peak MiB of a run above them": most})
    title = "memory of training on more images (they were there before the run began)"
    results["cases"].append({"title": title, "rows": rows})
    keep(results, read.out)


if __name__ == "__main__":
    entered({"build": build, "training": training}, main)
