"""AutoAttack standard, whole and component by component, against pyautoattack, torchattacks and ART.

    python benchmarks/autoattack.py [--quick] [--rounds 5] [--threads 2] [--models tiny-cnn,small-cnn] [--run FOLDER]
                                    [--samples N] [--parts all,apgd-ce,apgd-t,fab-t,square] [--patience 600]

Samples are correctly classified ones of the test half, eps so that about 70 % of them survive. pyautoattack is the
authors' code; torchattacks takes 10 iterations unless told 100, so both are measured; ART's ensemble is another one
(APGD on two losses with five starts, DeepFool, Square) and has no such components. Every side's points are judged by
us, in float32, and the verdicts are compared sample by sample; "equal to the stronger of both" means that we leave
nothing standing that another breaks. Each side runs with the best of some batch sizes, found on APGD-CE; ART, whose
loops take as long whatever the batch, with the largest.

A side stops taking turns once it has had `--patience` seconds, and then has fewer rounds than the others: the tables
say how many. A peer's passes are counted by a hook on the last layer, ours below autograd, in an unmeasured run; where
one run takes minutes (Small-CNN) peers have no such run, and theirs are counted in their first measured one. `--quick`
is the whole ensemble on Tiny-CNN and APGD-CE on Small-CNN, without ART's, which takes a minute for a single sample.
"""

from __future__ import annotations

from typing import Any

from harness import WARM, Job, Side, arguments, entered, fastest, head, say, turns
from models import fitting_eps, path_of, trained
from ours import VARIANTS, ensemble
from outcomes import case_told, keep, outcome, ratio
from peers import art_autoattack, pyautoattack, torchattacks_autoattack
from verdicts import compared, letters, robust

OURS, FASTEST = "bilaw, allocator kept", "bilaw, bf16"
PEERS = {
    "pyautoattack": ("pyautoattack", 100, 3),
    "torchattacks, 100 iterations": ("torchattacks", 100, 3),
    "torchattacks as it comes": ("torchattacks", None, 1),
    "art": ("art", None, 10),
}
PARTS = "all,apgd-ce,apgd-t,fab-t,square"
TRIED = 50  # samples on which batch sizes are tried in a network that is slow


def build(case: dict[str, Any]) -> Job:
    """Return a side, ours or a peer's."""
    subject = trained(case["run"], case["samples"])
    module, x, y = subject.module.to(case["device"]), subject.x.to(case["device"]), subject.y.to(case["device"])
    x, y = x[: case.get("first", len(x))], y[: case.get("first", len(y))]
    points = {
        "bilaw": lambda: lambda x, y: ensemble(module, x, y, case),
        "pyautoattack": lambda: pyautoattack(module, case),
        "torchattacks": lambda: torchattacks_autoattack(module, case),
        "art": lambda: art_autoattack(module, case, x),
    }[case["side"]]()
    told = lambda found: {"robust": letters(robust(module, x, y, found, case["eps"], case["norm"]))}  # noqa: E731
    return Job(lambda: points(x, y), module, told)


def cases_of(case: dict[str, Any], peers: list[str]) -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """Return every side's case and environment."""
    mine = {name: ({**case, "side": "bilaw", "precision": kind}, dict(env)) for name, (kind, env) in VARIANTS.items()}
    theirs = {name: ({**case, "side": PEERS[name][0], "steps": PEERS[name][1]}, {}) for name in peers}
    return {**mine, **theirs}


def counting(side: str, once: bool, quick: bool) -> dict[str, str | None]:
    """Return how a side's passes are counted: a peer's by a hook, ours below autograd, in a run that is not timed."""
    if side in PEERS:
        return {"warm": None, "count": "hooks"} if once else {"warm": "hooks"}
    if side == OURS or (side == FASTEST and not quick):
        return {"warm": WARM}
    return {"warm": None if once else "nothing"}


def best_batches(case: dict[str, Any], peers: list[str], sizes: list[int], threads: int) -> dict[str, int]:
    """Return each side's best batch size."""
    tried = {**case, "part": "apgd-ce", "first": min(TRIED if case["slow"] else case["samples"], case["samples"])}
    candidates = {
        name: {size: Side("build", {**one, "batch": size}, env) for size in sizes}
        for name, (one, env) in cases_of(tried, peers).items()
        if one["side"] != "art"
    }
    return {name: side.case["batch"] for name, side in fastest(candidates, threads).items()}


def main() -> None:
    read = arguments(
        __doc__,
        models={"default": "tiny-cnn,small-cnn"},
        run={"help": "a finished run instead"},
        samples={"type": int, "help": "default: 500 of Tiny-CNN, 100 of Small-CNN; with --quick 8 and 4"},
        parts={"help": f"default: {PARTS}"},
        patience={"type": float, "default": 600.0},
        norm={"default": "linf"},
        device={"default": "cpu"},
        peers={"default": ";".join(PEERS), "help": "separated by semicolons"},
    )
    results = head("autoattack", read, "pyautoattack", "torchattacks", "adversarial-robustness-toolbox")
    rounds = 1 if read.quick else read.rounds
    for name in read.models.split(","):
        slow, run = name != "tiny-cnn", path_of(name, read.quick, read.run)
        samples = read.samples or ((4 if slow else 8) if read.quick else (100 if slow else 500))
        eps = fitting_eps(trained(run, max(samples, 50)), read.norm)
        case = {"run": run, "samples": samples, "norm": read.norm, "eps": eps}
        case |= {"device": read.device, "slow": slow}
        peers = [peer for peer in read.peers.split(";") if peer and not (read.quick and peer == "art")]
        sizes = [samples] if read.quick else [16, TRIED] if slow else [100, 250, samples]
        batches = {"art": samples, **best_batches(case, peers, sizes, read.threads)}
        parts = (read.parts or (("apgd-ce" if slow else "all") if read.quick else PARTS)).split(",")
        for part in parts:
            alone = [peer for peer in peers if part == "all" or PEERS[peer][0] != "art"]
            say(f"{name}, {part}, eps {eps:.4g}")
            sides = {}
            for side, (one, env) in cases_of({**case, "part": part}, alone).items():
                if read.quick and side not in (OURS, FASTEST, *peers):
                    continue
                counted = counting(side, slow or read.quick, read.quick)
                sides[side] = Side("build", {**one, "batch": batches[side]}, env, **counted)
            taken = turns(sides, rounds, read.threads, read.patience)
            results["cases"].append(told_of(name, part, case, sides, taken))
            keep(results, read.out)


def told_of(
    name: str, part: str, case: dict[str, Any], sides: dict[str, Side], taken: dict[str, Any]
) -> dict[str, Any]:
    """Return a part's figures, verdicts and ratios."""
    told = {side: outcome(one) for side, one in taken.items()}
    verdicts = {side: one.facts["robust"] for side, one in taken.items()}
    for side, agreed in compared(verdicts, OURS).items():
        told[side]["told"] = {"batch": sides[side].case["batch"], **agreed}
    peers = [side for side in sides if side in PEERS]
    ratios = []
    for mine in (OURS, FASTEST):
        for peer in peers:
            ratios.append(ratio(told, peer, mine, least=PEERS[peer][2] if part == "all" else None))
    spared = [peer for peer in peers if PEERS[peer][1] == 100 and told[peer]["told"]["only it breaks"]]
    notes = [f"{peer} breaks {told[peer]['told']['only it breaks']} sample(s) that we do not" for peer in spared]
    robust_share = told[OURS]["told"]["robust"]
    title = (
        f"{name}, {part}, {case['samples']} samples, {case['norm']}, eps {case['eps']:.4g}, {robust_share:.1%} robust"
    )
    return {"title": title, "case": case_told({**case, "part": part}), "sides": told, "ratios": ratios, "notes": notes}


if __name__ == "__main__":
    entered({"build": build}, main)
