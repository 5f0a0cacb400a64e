"""Where the time goes: one BiLAW step, and each component of AutoAttack, by torch.profiler.

    python benchmarks/shares.py [--quick] [--rounds 3] [--threads 2] [--models tiny-cnn,small-cnn] [--run FOLDER]

Three shares of the processor's time: convolutions and matrix products; all other kernels (element-wise work, BatchNorm,
pooling, sorting, copies), which move memory and hardly compute; and what is in no kernel, which is Python, autograd
and PyTorch's dispatch between them. A kernel's time is its own, without those it calls. Time inside no kernel is
measured on runs without the profiler, whose own cost would count there. Of `--rounds` runs of either kind the quickest
counts. Attacks are cut short (20 iterations, two targets, 200 queries): shares are asked for, not seconds.
"""

from __future__ import annotations

from typing import Any

import torch
from harness import Job, Side, Worker, arguments, entered, head, say
from machine import KEEPING
from models import fitting_eps, path_of, trained
from ours import classifier
from outcomes import case_told, keep
from step import build as build_step
from torch.profiler import ProfilerActivity, profile

from bilaw.attacks.autoattack import standard
from bilaw.rng import generator
from bilaw.types import Batch

PRODUCTS = ("conv", "mm", "linear", "matmul", "bmm", "einsum", "dot", "mv")
MOVES = ("copy", "cat", "contiguous", "clone", "fill", "zero", "reorder", "_to_copy", "index", "gather", "scatter")
SHORT = {"apgd-ce": {"steps": 20}, "apgd-t": {"steps": 20, "targets": 2}, "fab-t": {"steps": 20, "targets": 2}}


def kind(name: str) -> str:
    """Return which share a kernel counts to.

    >>> kind("aten::mkldnn_convolution"), kind("aten::addmm"), kind("aten::copy_"), kind("aten::relu_")
    ('products', 'products', 'copies', 'element-wise')
    """
    bare = name.rpartition("::")[2]
    if any(word in bare for word in PRODUCTS) and not bare.startswith("comm"):
        return "products"
    return "copies" if any(word in bare for word in MOVES) else "element-wise"


def step(case: dict[str, Any]) -> Job:
    """Return a BiLAW step."""
    return profiled(build_step({**case, "attack": "pgd", "meta": "pgd"}))


def component(case: dict[str, Any]) -> Job:
    """Return a component of AutoAttack with fewer iterations: shares, not seconds, are asked for."""
    from dataclasses import replace

    subject = trained(case["run"], case["samples"])
    x, y = subject.x, subject.y
    attack = standard(case["eps"])[case["part"]]
    shorter = {"queries": 200} if case["part"] == "square" else SHORT[case["part"]]
    attack = replace(attack, **shorter)  # type: ignore[type-var]
    climbed, batch = classifier(subject.module, case["precision"]), Batch(x, y, torch.arange(len(x)))
    return profiled(Job(lambda: attack(climbed, batch, generator(0, "shares")), subject.module))


def profiled(job: Job) -> Job:
    """Return a job whose facts are its kernels' times, taken in a second run."""

    def told(result: object) -> dict[str, Any]:
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            job.run()
        rows = [(e.key, e.self_cpu_time_total / 1e6, e.count) for e in seen.key_averages() if "::" in e.key]
        rows.sort(key=lambda row: -row[1])
        shares: dict[str, float] = {"products": 0.0, "copies": 0.0, "element-wise": 0.0}
        for name, seconds, _ in rows:
            shares[kind(name)] += seconds
        return {"kernels": shares, "calls": sum(row[2] for row in rows), "top": rows[:8]}

    return job._replace(facts=told)


def row(name: str, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the shares of the quickest run as a table's row; others may have been at work beside it."""
    found = min((answer["facts"] for answer in answers), key=lambda facts: sum(facts["kernels"].values()))
    kernels, wall = found["kernels"], min(answer["wall"] for answer in answers)
    rest = max(wall - sum(kernels.values()), 0.0)
    whole = sum(kernels.values()) + rest
    shares = {"convolution, GEMM": kernels["products"], "element-wise": kernels["element-wise"]}
    shares |= {"copies": kernels["copies"], "no kernel": rest}
    top = ", ".join(f"{key.rpartition('::')[2]} {seconds / whole:.0%}" for key, seconds, _ in found["top"][:4])
    told = {"part": name, "clock s": wall, **{key: f"{value / whole:.0%}" for key, value in shares.items()}}
    return {**told, "kernel calls": found["calls"], "the largest": top}


def answers_of(side: Side, threads: int, rounds: int) -> list[dict[str, Any]]:
    """Return what a side tells of its runs after the first."""
    with Worker(side, threads) as worker:
        return [worker.ask("run") for _ in range(rounds + 1)][1:]


def main() -> None:
    read = arguments(
        __doc__,
        3,
        models={"help": "default: tiny-cnn,small-cnn; with --quick tiny-cnn"},
        run={"help": "a finished run instead"},
    )
    results = head("shares", read)
    for name in (read.models or ("tiny-cnn" if read.quick else "tiny-cnn,small-cnn")).split(","):
        run = path_of(name, read.quick, read.run)
        size = (16 if name == "small-cnn" else 100) if read.quick else (64 if name == "small-cnn" else 250)
        case = {"run": run, "samples": size, "eps": fitting_eps(trained(run, 50)), "norm": "linf"}
        rows = []
        for precision in ("fp32", "bf16"):
            common = {"model": name, "batch": size, "bf16": precision == "bf16"}
            rows.append(
                row(f"BiLAW step, {precision}", answers_of(Side("step", common, KEEPING), read.threads, read.rounds))
            )
            for part in standard(0.1):
                side = Side("component", {**case, "part": part, "precision": precision}, KEEPING)
                rows.append(row(f"{part}, {precision}", answers_of(side, read.threads, read.rounds)))
                say(rows[-1]["part"])
            if read.quick:
                break
        title = f"{name}, batches of {size}"
        results["cases"].append({"title": title, "case": case_told(case), "rows": rows})
        keep(results, read.out)


if __name__ == "__main__":
    entered({"step": step, "component": component}, main)
