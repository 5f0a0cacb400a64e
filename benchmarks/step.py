"""What a training step costs: BiLAW against AT, TRADES likewise, cheap attacks, a frozen omega, bf16, channels_last.

    python benchmarks/step.py [--quick] [--rounds 5] [--threads 2] [--model small-cnn] [--batch 128]
                              [--cases bilaw,attacks,precision]

`bilaw`: PGD-10 in both roles and the exact derivative, against one step of AT and of TRADES, and a frozen omega
("pretrained") against AT. `attacks`: BiLAW with F-FGSM in the reweighting role, and in both. `precision`: an AT step
in float32 and bfloat16, with and without channels_last. All under the allocator that our command line runs with but
the memory, which is compared under glibc's own: blocks that are kept are memory, too. Memory is the peak of the
resident set in two steps less what was resident before, in processes of their own, three in turn. `--quick` leaves
TRADES and NCHW out.
"""

from __future__ import annotations

from typing import Any

import torch
from harness import Job, Side, arguments, entered, head, memory, turns
from machine import KEEPING
from outcomes import keep, outcome, ratio

from bilaw.algorithm import Method, bilaw_step, weighted_step
from bilaw.attacks import PGD, fast_fgsm
from bilaw.losses import AdversarialCE, Trades
from bilaw.models import build as build_model
from bilaw.net import Net
from bilaw.types import Attack, Batch, Loss
from bilaw.weighting import Learned, Omega, Uniform, WeightNet

SHAPES = {"tiny-cnn": (1, 28, 28), "fc1": (1, 28, 28)}
EPS = 8 / 255
PGD_PGD = {"attack": "pgd", "meta": "pgd"}
SIDES: dict[str, dict[str, Any]] = {
    "AT": {"attack": "pgd"},
    "BiLAW": PGD_PGD,
    "TRADES": {"attack": "pgd", "loss": "trades"},
    "BiLAW-TRADES": {**PGD_PGD, "loss": "trades"},
    "AT, frozen omega": {"attack": "pgd", "frozen": True},
    "BiLAW, PGD/PGD": PGD_PGD,
    "BiLAW, PGD/F-FGSM": {"attack": "pgd", "meta": "f-fgsm"},
    "BiLAW, F-FGSM/F-FGSM": {"attack": "f-fgsm", "meta": "f-fgsm"},
    "AT, fp32, NCHW": {"attack": "pgd", "channels_last": False},
    "AT, fp32, channels_last": {"attack": "pgd", "channels_last": True},
    "AT, bf16, NCHW": {"attack": "pgd", "channels_last": False, "bf16": True},
    "AT, bf16, channels_last": {"attack": "pgd", "channels_last": True, "bf16": True},
}
# What is compared: the sides, and ratios as (slow, fast, at least, at most, memory at most).
CASES: dict[str, tuple[str, tuple[str, ...], tuple[tuple[Any, ...], ...]]] = {
    "bilaw": (
        "PGD-10 in both roles, exact derivative",
        ("AT", "BiLAW", "TRADES", "BiLAW-TRADES", "AT, frozen omega"),
        (
            ("BiLAW", "AT", None, 2.2, 2.0),
            ("BiLAW-TRADES", "TRADES", None, None, None),
            ("AT, frozen omega", "AT", None, 1.1, None),
        ),
    ),
    "attacks": (
        "attack of the training role / of the reweighting role",
        ("BiLAW, PGD/PGD", "BiLAW, PGD/F-FGSM", "BiLAW, F-FGSM/F-FGSM"),
        (
            ("BiLAW, PGD/PGD", "BiLAW, F-FGSM/F-FGSM", 6.5, None, None),
            ("BiLAW, PGD/PGD", "BiLAW, PGD/F-FGSM", 1.8, None, None),
        ),
    ),
    "precision": (
        "precision and memory format",
        ("AT, fp32, NCHW", "AT, fp32, channels_last", "AT, bf16, NCHW", "AT, bf16, channels_last"),
        (
            ("AT, fp32, NCHW", "AT, fp32, channels_last", None, None, None),
            ("AT, fp32, channels_last", "AT, bf16, channels_last", None, None, None),
            ("AT, fp32, NCHW", "AT, bf16, channels_last", None, None, None),
        ),
    ),
}


def attack_of(name: str, loss: Loss) -> Attack:
    """Return an attack that suits the loss."""
    if name == "f-fgsm":
        return fast_fgsm(EPS, objective=loss.objective)
    return PGD(EPS, steps=10, objective=loss.objective, start=loss.start)


def build(case: dict[str, Any]) -> Job:
    """Return a method, ready to take steps on data of its own."""
    shape, device = SHAPES.get(case["model"], (3, 32, 32)), case["device"]
    module = build_model(case["model"], shape, 10, seed=0).to(device)
    # As runs do it by default: where convolutions read many channels.
    pays = any(isinstance(part, torch.nn.Conv2d) and part.in_channels >= 32 for part in module.modules())
    net = Net(module, bf16=case.get("bf16", False), channels_last=case.get("channels_last", pays))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=2e-4)
    loss: Loss = Trades() if case.get("loss") == "trades" else AdversarialCE()
    drawn = torch.Generator().manual_seed(0)
    x, y = torch.rand(2, case["batch"], *shape, generator=drawn), torch.randint(10, (2, case["batch"]), generator=drawn)
    batch, held = (Batch(a.to(device), b.to(device), torch.arange(len(b))) for a, b in zip(x, y, strict=True))
    network, attack = WeightNet(10).to(device), attack_of(case["attack"], loss)
    if "meta" not in case:
        scheme = Omega(network.requires_grad_(False)) if case.get("frozen") else Uniform()
        method = Method(loss, attack, scheme)
        return Job(lambda: weighted_step(net, optimizer, batch, method, 0, 0), module)
    learned = Learned(Omega(network), torch.optim.AdamW(network.parameters(), lr=1e-3))
    method = Method(loss, attack, learned, meta_attack=attack_of(case["meta"], loss))
    return Job(lambda: bilaw_step(net, optimizer, batch, held, method, 0, 0), module)


def main() -> None:
    read = arguments(
        __doc__,
        model={"default": "small-cnn"},
        batch={"type": int, "help": "default: 128, with --quick 8"},
        cases={"help": f"default: {','.join(CASES)}; with --quick without the last, of which gemm.py has a part"},
        device={"default": "cpu"},
    )
    results = head("step", read)
    size = read.batch or (8 if read.quick else 128)
    for name in read.cases.split(",") if read.cases else list(CASES)[: 2 if read.quick else None]:
        about, names, wanted = CASES[name]
        if read.quick:
            names = tuple(side for side in names if "TRADES" not in side and "NCHW" not in side)
            wanted = tuple(one for one in wanted if {one[0], one[1]} <= set(names))
        common = {"model": read.model, "batch": size, "device": read.device}
        plain = {side: Side("build", {**common, **SIDES[side]}) for side in names}
        sides = {side: Side("build", one.case, KEEPING) for side, one in plain.items()}
        taken = turns(sides, read.rounds, read.threads)
        compared = {side: one for side, one in plain.items() if "frozen" not in side}
        peaks = memory(compared, read.threads, 1 if read.quick else 3) if name == "bilaw" else {}
        told = {side: outcome(one, peaks.get(side)) for side, one in taken.items()}
        ratios = [ratio(told, slow, fast, least, most, mib) for slow, fast, least, most, mib in wanted]
        title = f"{read.model}, batches of {size}: {about}"
        results["cases"].append({"title": title, "case": common, "sides": told, "ratios": ratios})
        keep(results, read.out)


if __name__ == "__main__":
    entered({"build": build}, main)
