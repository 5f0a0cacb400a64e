"""The meta part alone (lines 5 to 8 of Algorithm 1, attacks left out) against `higher`, torchopt and betty.

    python benchmarks/meta.py [--quick] [--rounds 5] [--threads 2] [--models tiny-cnn,small-cnn]

The adversarial points are given, on training and held-out samples alike, 128 of each; the loss is adversarial CE, the
weights come from the clean multi-class margins. Each library's side is written as its own examples are: an
unrolled, differentiable SGD step, the held-out loss at the look-ahead, its gradient with respect to mu by autograd
(double backward), a step of mu, and then the step of theta with the new weights. betty's side is its
`IterativeProblem`, which differentiates exactly (its `darts` is a finite difference at other parameters) with
`roll_back`, the two methods of which are overridden: 0.1.1 keeps references where it means copies.

Before any clock runs, each side takes one step in double precision: the gradients with respect to mu have to agree to
1e-5 of their norm, and theta after the step as well.
"""

from __future__ import annotations

from typing import Any

import torch
from harness import Job, Side, Worker, arguments, entered, head, memory, say, turns
from machine import KEEPING
from outcomes import keep, outcome, ratio
from torch import Tensor
from unrolled import SIDES, Problem

from bilaw.algorithm import Method, bilaw_step
from bilaw.losses import AdversarialCE
from bilaw.models import build as build_model
from bilaw.net import Net
from bilaw.types import Adversarial, Batch
from bilaw.weighting import Learned, Omega, WeightNet

SHAPES = {"tiny-cnn": (1, 28, 28), "small-cnn": (3, 32, 32)}
PEERS = ("higher", "torchopt", "betty")
PACKAGES = ("higher", "torchopt", "betty-ml")
OURS = "bilaw, allocator kept"
CLOSE = 1e-5


def problem(case: dict[str, Any]) -> Problem:
    """Return the two networks and the data, the same for every side."""
    shape, dtype = SHAPES[case["model"]], getattr(torch, case["dtype"])
    module = build_model(case["model"], shape, 10, seed=0).to(dtype).train()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = WeightNet(10).to(dtype)
        drawn = [torch.rand(2, case["batch"], *shape, dtype=dtype) for _ in range(2)]
        y = torch.randint(10, (2, case["batch"]))
    (x, held), (noise, held_noise) = ((part[0], part[1]) for part in drawn)
    moved = [(a + 0.06 * (b - 0.5)).clamp(0, 1) for a, b in ((x, noise), (held, held_noise))]
    return Problem(module, network, x, moved[0], y[0], held, moved[1], y[1])


class Given:
    """An attack that returns points which were found before."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __call__(self, logits_of: object, batch: Batch, generator: object = None) -> Adversarial:
        return Adversarial(self.x, torch.zeros_like(batch.y), steps=0)


def ours(given: Problem) -> Any:
    """Return our step."""
    net = Net(given.module)
    optimizer = torch.optim.SGD(given.module.parameters(), lr=given.beta)
    scheme = Learned(Omega(given.network), torch.optim.Adam(given.network.parameters(), lr=given.alpha))
    index = torch.arange(len(given.y))
    batch, held = Batch(given.x, given.y, index), Batch(given.held, given.held_y, index)
    method = Method(AdversarialCE(), Given(given.x_adv), scheme, meta_attack=Given(given.held_adv))
    return lambda: bilaw_step(net, optimizer, batch, held, method, 0, 0)


def build(case: dict[str, Any]) -> Job:
    """Return a side."""
    given = problem(case)
    step = (ours if case["side"] == "bilaw" else SIDES[case["side"]])(given)

    def told(result: object) -> dict[str, Any]:
        if case["dtype"] == "float32":
            return {}
        values = step.parameters() if hasattr(step, "parameters") else given.module.parameters()
        theta = [float(p.detach().sum()) for p in values]
        gradient = torch.cat([p.grad.flatten() for p in given.network.parameters()])
        return {"mu": gradient.tolist(), "theta": theta}

    return Job(step, given.module, told)


def checked(case: dict[str, Any], threads: int) -> dict[str, dict[str, float]]:
    """Return how far apart the gradients and the parameters are after a step in double precision; refuse too far."""
    found = {}
    for side in ("bilaw", *PEERS):
        with Worker(Side("build", {**case, "dtype": "float64", "side": side}), threads) as worker:
            told = worker.ask("run")["facts"]
        found[side] = {name: torch.tensor(told[name], dtype=torch.float64) for name in ("mu", "theta")}
    apart = {}
    for side in PEERS:
        apart[side] = {
            name: float((found[side][name] - mine).norm() / mine.norm()) for name, mine in found["bilaw"].items()
        }
        say(f"{side}: gradients of mu apart by {apart[side]['mu']:.2g}, theta by {apart[side]['theta']:.2g}")
        assert max(apart[side].values()) < CLOSE, f"{side} computes something else: {apart[side]}"
    return apart


def main() -> None:
    read = arguments(
        __doc__, models={"help": "default: tiny-cnn,small-cnn; with --quick small-cnn"}, batch={"type": int}
    )
    results = head("meta", read, *PACKAGES)
    for model in (read.models or ("small-cnn" if read.quick else "tiny-cnn,small-cnn")).split(","):
        size = read.batch or (8 if read.quick else 128)
        case = {"model": model, "batch": size, "dtype": "float32"}
        apart = checked({**case, "batch": min(size, 16)}, read.threads)
        sides = {"bilaw": Side("build", {**case, "side": "bilaw"})}
        sides[OURS] = Side("build", {**case, "side": "bilaw"}, KEEPING)
        sides |= {side: Side("build", {**case, "side": side}) for side in PEERS}
        taken = turns(sides, read.rounds, read.threads)
        plain = {name: side for name, side in sides.items() if name != OURS}
        peaks = memory(plain, read.threads, 1 if read.quick else 3)
        told = {name: outcome(one, peaks.get(name)) for name, one in taken.items()}
        for side in PEERS:
            told[side]["told"] = {"gradient apart by": f"{apart[side]['mu']:.1g}"}
        ratios = [ratio(told, peer, OURS, least=1.5) for peer in PEERS]
        # Memory is compared under one allocator: kept blocks are memory, too.
        for peer in PEERS:
            ratios.append({**ratio(told, peer, "bilaw"), "memory_target": "at least 1"})
            ratios[-1]["memory_met"] = ratios[-1]["mib"] >= 1
        title = f"{model}, {size} + {size} samples, lines 5 to 8"
        results["cases"].append({"title": title, "case": case, "sides": told, "ratios": ratios})
        keep(results, read.out)


if __name__ == "__main__":
    entered({"build": build}, main)
