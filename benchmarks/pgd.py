"""PGD-20 against torchattacks, foolbox and ART, each as it comes: same steps, same step size, same start.

    python benchmarks/pgd.py [--quick] [--rounds 5] [--threads 2] [--models tiny-cnn,small-cnn] [--run FOLDER]

Every side starts from the images themselves, so that all climb the same path: robust accuracies have to agree within
half a point (one sample with --quick, which leaves l2 out) and the verdicts are compared one by one. Images are
correctly classified ones of the test half, eps so that about 70 % survive. Each side runs with the best of its batch
sizes. Passes are rows through the network. Ratios of medians; the allocator's settings are those of the side's name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness import Job, Side, arguments, entered, fastest, head, say, turns
from models import fitting_eps, path_of, trained
from ours import VARIANTS, attacked
from outcomes import case_told, keep, outcome, ratio
from peers import art_pgd, foolbox_pgd, torchattacks_pgd
from verdicts import compared, letters, robust

from bilaw.attacks import PGD

OURS, FASTEST = "bilaw, allocator kept", "bilaw, bf16"
PEERS = ("torchattacks", "foolbox", "art")
PACKAGES = ("torchattacks", "foolbox", "adversarial-robustness-toolbox")
TARGETS = {"small-cnn": {"fp32": (2.2, 3, 3), "bf16": (3.9, 5, 5)}, "tiny-cnn": {"fp32": (1.5, 1.5, 1.5)}}
STEPS = 20


def build(case: dict[str, Any]) -> Job:
    """Return a side, ours or a peer's."""
    subject = trained(case["run"], case["samples"])
    module, x, y = subject.module.to(case["device"]), subject.x.to(case["device"]), subject.y.to(case["device"])
    x, y = x[: case.get("first", len(x))], y[: case.get("first", len(y))]
    side = case["side"]
    if side == "bilaw":
        attack = PGD(case["eps"], case["norm"], steps=case["steps"], step_size=case["step"], start="zero")
        points = lambda x, y: attacked(module, attack, x, y, case, "pgd")  # noqa: E731
    elif side == "art":
        points = art_pgd(module, case, x)
    else:
        points = {"torchattacks": torchattacks_pgd, "foolbox": foolbox_pgd}[side](module, case)
    told = lambda found: {"robust": letters(robust(module, x, y, found, case["eps"], case["norm"]))}  # noqa: E731
    return Job(lambda: points(x, y), module, told)


def sides_of(case: dict[str, Any], sizes: list[int], threads: int) -> dict[str, Side]:
    """Return the sides, each with the batch size that is best for it, found on as many images as the largest has."""
    candidates, whole = {}, case
    case = {**case, "first": min(max(sizes), case["samples"])}
    for name, (precision, env) in VARIANTS.items():
        mine = {**case, "side": "bilaw", "precision": precision}
        candidates[name] = {size: Side("build", {**mine, "batch": size}, env) for size in sizes}
    for name in PEERS:
        candidates[name] = {size: Side("build", {**case, "side": name, "batch": size}) for size in sizes}
    chosen = fastest(candidates, threads)
    return {name: replace(side, case={**side.case, "first": whole["samples"]}) for name, side in chosen.items()}


def main() -> None:
    more = {"models": {"default": "tiny-cnn,small-cnn"}, "run": {"help": "a finished run instead"}}
    read = arguments(__doc__, device={"default": "cpu"}, samples={"type": int}, **more)
    results = head("pgd", read, *PACKAGES)
    for name in read.models.split(","):
        run = path_of(name, read.quick, read.run)
        samples = read.samples or ((250 if name == "tiny-cnn" else 20) if read.quick else 1000)
        for norm in ("linf",) if read.quick else ("linf", "l2"):
            eps = fitting_eps(trained(run, samples), norm)
            case = {"run": run, "samples": samples, "norm": norm, "eps": eps, "step": eps / 4, "steps": STEPS}
            case["device"] = read.device
            say(f"{name}, {norm}, eps {eps:.4g}")
            sizes = [samples] if read.quick else [100, 250, samples] if name == "tiny-cnn" else [50, 250]
            sides = sides_of(case, sizes, read.threads)
            taken = turns(sides, read.rounds, read.threads)
            told = {side: outcome(one) for side, one in taken.items()}
            verdicts = {side: one.facts["robust"] for side, one in taken.items()}
            for side, agreed in compared(verdicts, OURS).items():
                told[side]["told"] = {"batch": sides[side].case["batch"], **agreed}
                apart = abs(verdicts[side].count("1") - verdicts[OURS].count("1"))
                assert apart <= max(0.005 * samples, 1), f"{side} finds another robust accuracy"
            targets = TARGETS[name]
            ratios = [ratio(told, p, OURS, least=t) for p, t in zip(PEERS, targets["fp32"], strict=True)]
            for peer, target in zip(PEERS, targets.get("bf16", (None,) * 3), strict=True):
                ratios.append(ratio(told, peer, FASTEST, least=target))
            title = f"{name}, {norm}, {samples} images, eps {eps:.4g}, {STEPS} steps of {eps / 4:.4g}"
            results["cases"].append({"title": title, "case": case_told(case), "sides": told, "ratios": ratios})
            keep(results, read.out)


if __name__ == "__main__":
    entered({"build": build}, main)
