"""The machine's peak in float32 and bfloat16, and the share of it that a training step of Small-CNN reaches.

    python benchmarks/gemm.py [--quick] [--rounds 5] [--threads 2] [--batch 128]

The peak is the best of some shapes of convolution (1x1 is a matrix product, 3x3 what networks do) and of `torch.mm`,
forward, channels_last, through oneDNN; `torch.mm` in float32 is MKL's and understates what an AMD processor can do,
so it alone would not be a peak. The training step is plain training, nothing but forward, backward and SGD, on 128
images of 3x32x32, from the bare NCHW float32 step upwards; beside it an AT step with PGD-10. Multiply-adds are
counted as the operations run; those of element-wise work count for nothing. What bf16 costs in accuracy is no matter
of speed and is told in docs/results.md.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from harness import Job, Side, arguments, entered, head, turns
from machine import KEEPING
from outcomes import keep, outcome

from bilaw.algorithm import Method, weighted_step
from bilaw.attacks import PGD, NoAttack
from bilaw.losses import AdversarialCE, Plain
from bilaw.models import build as build_model
from bilaw.net import Net
from bilaw.types import Batch

# (images, channels, side, kernel), or the size of a square product
SHAPES: dict[str, tuple[int, ...]] = {
    "convolution 1x1, 512 channels": (32, 512, 16, 1),
    "convolution 3x3, 64 channels": (32, 64, 32, 3),
    "convolution 3x3, 128 channels": (64, 128, 16, 3),
    "convolution 3x3, 256 channels": (32, 256, 16, 3),
    "torch.mm, 2048": (2048,),
}
STEPS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "plain step, NCHW, glibc's allocator": ({"attacked": False}, {}),
    "plain step, channels_last, glibc's allocator": ({"attacked": False, "channels_last": True}, {}),
    "plain step, channels_last": ({"attacked": False, "channels_last": True}, KEEPING),
    "plain step, channels_last, bf16": ({"attacked": False, "channels_last": True, "bf16": True}, KEEPING),
    "AT step, channels_last": ({"attacked": True, "channels_last": True}, KEEPING),
    "AT step, channels_last, bf16": ({"attacked": True, "channels_last": True, "bf16": True}, KEEPING),
}
GOAL, RATE = 0.6, "GFLOP/s a core"


def product(case: dict[str, Any]) -> Job:
    """Return one convolution or matrix product, repeated until it takes long enough to time."""
    shape, dtype, device = case["shape"], getattr(torch, case["dtype"]), case["device"]
    if len(shape) == 1:
        a, b = (torch.randn(shape[0], shape[0], dtype=dtype, device=device) for _ in range(2))
        once, added = (lambda: a @ b), shape[0] ** 3
    else:
        n, channels, side, kernel = shape
        options = {"dtype": dtype, "device": device}
        x = torch.randn(n, channels, side, side, **options).to(memory_format=torch.channels_last)
        w = torch.randn(channels, channels, kernel, kernel, **options).to(memory_format=torch.channels_last)
        once, added = (lambda: F.conv2d(x, w, padding=kernel // 2)), n * side**2 * channels**2 * kernel**2

    @torch.no_grad()
    def run() -> None:
        for _ in range(case["repeat"]):
            once()

    return Job(run, None, lambda _: {"multiply_adds": added * case["repeat"]})


def step(case: dict[str, Any]) -> Job:
    """Return a training step."""
    device = case["device"]
    module = build_model("small-cnn", (3, 32, 32), 10, seed=0).to(device)
    net = Net(module, bf16=case.get("bf16", False), channels_last=case.get("channels_last", False))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=2e-4)
    method = Method(AdversarialCE(), PGD(8 / 255, steps=10)) if case["attacked"] else Method(Plain(), NoAttack())
    x, y = torch.rand(case["batch"], 3, 32, 32, device=device), torch.randint(10, (case["batch"],), device=device)
    batch = Batch(x, y, torch.arange(len(y)))
    return Job(lambda: weighted_step(net, optimizer, batch, method, 0, 0), module)


def rates(told: dict[str, Any], added: int, device: str) -> dict[str, Any]:
    """Return a side's figures with its rate, a multiply-add counted as two operations.

    It is by the processor's time, so a rate of one core: on a machine that others use as well, the clock's is theirs.
    """
    by = told["wall" if device.startswith("cuda") else "cpu"]
    told["told"] = {RATE: 2e-9 * added / by["median"], "best": 2e-9 * added / by["least"]}
    return told


def main() -> None:
    read = arguments(__doc__, batch={"type": int, "help": "default: 128"}, device={"default": "cpu"})
    results = head("gemm", read)
    peaks = {}
    for dtype in ("float32", "bfloat16"):
        case = {"dtype": dtype, "repeat": 5 if read.quick else 20, "device": read.device}
        chosen = list(SHAPES.items())[2:3] if read.quick else SHAPES.items()
        sides = {name: Side("product", {**case, "shape": shape}, KEEPING) for name, shape in chosen}
        taken = turns(sides, read.rounds, read.threads)
        told = {name: rates(outcome(one), one.facts["multiply_adds"], read.device) for name, one in taken.items()}
        peaks[dtype] = max(side["told"][RATE] for side in told.values())
        note = (
            f"the peak in {dtype} is the best median, {peaks[dtype]:.0f} GFLOP/s a core with {read.threads} thread(s)"
        )
        results["cases"].append({"title": f"peak, {dtype}", "case": case, "sides": told, "notes": [note]})
        keep(results, read.out)
    size = read.batch or (16 if read.quick else 128)
    common = {"batch": size, "device": read.device}
    steps = list(STEPS.items())[2:4] if read.quick else STEPS.items()
    taken = turns({name: Side("step", {**common, **one}, env) for name, (one, env) in steps}, read.rounds, read.threads)
    told = {}
    for name, one in taken.items():
        told[name] = rates(outcome(one), (one.passes or {})["multiply_adds"], read.device)
        share = told[name]["told"][RATE] / peaks["float32"]
        told[name]["told"]["of the fp32 peak"] = f"{share:.0%}"
    share = told["plain step, channels_last"]["told"]["of the fp32 peak"]
    met = "met" if float(share[:-1]) >= 100 * GOAL else "missed"
    title = f"training step, small-cnn, batches of {size}"
    notes = [f"target: {GOAL:.0%} of the fp32 peak in float32 with channels_last; reached {share}: {met}"]
    results["cases"].append({"title": title, "case": common, "sides": told, "notes": notes})
    keep(results, read.out)


if __name__ == "__main__":
    entered({"product": product, "step": step}, main)
