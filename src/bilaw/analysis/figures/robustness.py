"""How accurate, under what, and for whom: accuracies, the budget curve, classes, and runs against each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch

from bilaw.analysis.drawn import Drawn, axes, looks, styled
from bilaw.analysis.measures import Array, shares
from bilaw.analysis.study import Study, Verdict, labels, missing
from bilaw.evaluation.compare import LEVEL
from bilaw.evaluation.statistics import bootstrap, holm, mcnemar, pair, wilson

CLASSES = 40  # that a figure of classes shows at most: those with the lowest robust accuracy


def scores_data(studies: Sequence[Study]) -> dict[str, Any]:
    """Return every accuracy with Wilson's interval: run -> "attack", "accuracy", "low", "high", "n", "reliable"."""
    keys = ("attack", "accuracy", "low", "high", "hits", "n", "reliable")
    held = {
        one.name: {key: [score[key] for score in one.scores.values()] for key in keys} for one in studies if one.scores
    }
    return held or missing("No run has a finished evaluation; `bilaw evaluate RUN` makes one.")


@styled
def scores(studies: Sequence[Study]) -> Drawn:
    """Draw accuracies with 95 % intervals, a row an attack; an unreliable one is hollow and says so."""
    data = scores_data(studies)
    attacks = list(dict.fromkeys(name for held in data.values() for name in held["attack"]))
    figure, (ax,) = axes(width=5.2, height=0.9 + 0.45 * len(attacks))
    for place, (name, look) in enumerate(looks(list(data))):
        held, offset = data[name], (place - (len(data) - 1) / 2) * 0.6 / max(len(data), 1)
        for i, attack in enumerate(held["attack"]):
            y, value = attacks.index(attack) + offset, held["accuracy"][i]
            bad = held["reliable"][i] is False
            ax.plot([held["low"][i], held["high"][i]], [y, y], color=look["color"], lw=1.2)
            fill = "white" if bad else look["color"]
            ax.plot(value, y, look["marker"], color=look["color"], mfc=fill, ms=5, label=name if i == 0 else None)
            if bad:
                ax.annotate("UNRELIABLE", (held["high"][i], y), (4, -3), textcoords="offset points", fontsize=7)
    ax.set(yticks=range(len(attacks)), yticklabels=attacks, xlabel="accuracy, 95 % interval", xlim=(0, 1.02))
    ax.invert_yaxis()
    ax.grid(axis="x")
    ax.legend(loc="best")
    return Drawn(figure, data)


def budget_data(studies: Sequence[Study]) -> dict[str, Any]:
    """Return accuracy along the radius, with intervals: run -> "radius", "accuracy", "low", "high", "n", "eps"."""
    made = {}
    for one in studies:
        if one.probe is not None:
            hits, n = one.probe.robust.sum(dim=1).tolist(), one.probe.robust.shape[1]
            ends = np.array([wilson(h, n) for h in hits])
            held = {
                "radius": one.probe.radii.numpy(),
                "accuracy": np.array(hits) / n,
                "low": ends[:, 0],
                "high": ends[:, 1],
            }
            made[one.name] = {**held, "n": n, "eps": one.probe.facts["eps"], "norm": one.probe.facts["norm"]}
    return made or missing("No run was probed, so there is no budget curve.")


@styled
def budget(studies: Sequence[Study]) -> Drawn:
    """Draw accuracy under PGD-20 from no budget to three times eps."""
    data = budget_data(studies)
    figure, (ax,) = axes(width=4.4, height=3)
    for name, look in looks(list(data)):
        held = data[name]
        ax.plot(held["radius"], held["accuracy"], label=name, **look)
        ax.fill_between(held["radius"], held["low"], held["high"], color=look["color"], alpha=0.15, lw=0)
        ax.axvline(held["eps"], color="#888888", lw=0.8, ls=":")
    norm, n = (next(iter(data.values()))[key] for key in ("norm", "n"))
    ax.set(
        xlabel=f"budget eps ({norm}); dotted: that of the evaluation", ylabel=f"accuracy under PGD-20, {n:,} samples"
    )
    ax.set(ylim=(0, 1.02), xlim=(0, None))
    ax.legend()
    return Drawn(figure, data)


def main_attack(one: Study) -> str | None:
    """Return the attack whose verdicts stand for robustness: the one with most samples, PGD before others."""
    attacks = [name for name in one.verdicts if name != "clean"]
    return max(attacks, key=lambda name: (len(one.verdicts[name].place), name.startswith("pgd")), default=None)


def by_class(one: Study, attack: str) -> tuple[Array, Array]:
    """Return verdicts and labels of the samples that an attack was run on; of "probe" the probe's own."""
    if attack == "probe":
        return (one.seen.logits_adv.argmax(1) == one.seen.y).numpy() & (
            one.seen.logits.argmax(1) == one.seen.y
        ).numpy(), labels(one)
    verdict, of = one.verdicts[attack], dict(zip(one.seen.place.tolist(), one.seen.y.tolist(), strict=True))
    known = np.array([place in of for place in verdict.place.tolist()], dtype=bool)
    y = np.array([of[place] for place in verdict.place[known].tolist()], dtype=np.int64)
    return verdict.robust[known], y


def classes_data(studies: Sequence[Study], attack: str | None = None) -> dict[str, Any]:
    """Return each class's accuracy: run -> "clean" and "robust" (k, 4: accuracy, interval, n), "attack", "reliable".

    Runs whose classes are not those of the first are left out.
    """
    made: dict[str, Any] = {}
    probed = [one for one in studies if one.probe is not None]
    for one in (one for one in probed if one.classes == probed[0].classes):
        name = attack if attack in one.verdicts else main_attack(one) or "probe"
        k, clean = len(one.classes), "clean" if "clean" in one.verdicts else None
        right = by_class(one, clean) if clean else ((one.seen.logits.argmax(1) == one.seen.y).numpy(), labels(one))
        reliable = one.scores[name]["reliable"] if name in one.scores else None
        held = {"clean": shares(*right, k), "robust": shares(*by_class(one, name), k), "reliable": reliable}
        made[one.name] = {**held, "attack": "PGD-20" if name == "probe" else name, "classes": list(one.classes)}
    return made or missing("No run was probed, so nothing is known of its classes.")


@styled
def classes(studies: Sequence[Study], attack: str | None = None) -> Drawn:
    """Draw clean and robust accuracy of each class; of many classes the least robust."""
    data = classes_data(studies, attack)
    first = next(iter(data.values()))
    worst = np.argsort(np.nan_to_num(first["robust"][:, 0], nan=2), kind="stable")[:CLASSES]
    shown = np.sort(worst) if len(worst) == len(first["classes"]) else worst
    figure, (ax,) = axes(width=max(4.4, 0.3 * len(shown) + 1.2), height=3)
    for place, (name, look) in enumerate(looks(list(data))):
        held, x = data[name], np.arange(len(shown)) + (place - (len(data) - 1) / 2) * 0.18
        robust, clean = held["robust"][shown], held["clean"][shown]
        mark = ", UNRELIABLE" if held["reliable"] is False else ""
        bars = np.abs(np.nan_to_num(robust[:, 1:3].T - robust[:, 0]))
        ax.errorbar(
            x,
            robust[:, 0],
            bars,
            fmt=look["marker"],
            color=look["color"],
            ms=4,
            lw=1,
            label=f"{name}: {held['attack']}{mark}",
        )
        ax.plot(x, clean[:, 0], look["marker"], mfc="none", color=look["color"], ms=4, label=f"{name}: clean")
    ax.set(xticks=range(len(shown)), ylabel="accuracy, 95 % interval", ylim=(0, 1.02))
    ax.set_xticklabels([first["classes"][c] for c in shown], rotation=45, ha="right")
    ax.legend(fontsize=7)
    return Drawn(figure, data)


class Against(NamedTuple):
    """Two runs under one attack, on the same samples."""

    attack: str
    a: str
    b: str
    only_a: int
    only_b: int
    n: int
    difference: float  # of a less b
    low: float
    high: float
    p: float  # McNemar's, adjusted (Holm) for all pairs under this attack
    better: str | None  # by more than chance, no check of either's audit having failed


def result_of(one: Study, attack: str) -> dict[str, Any]:
    """Return the evaluation that an attack's score is from."""
    return next(result for result in one.results if one.scores[attack] in result["scores"])


def _same(a: Study, b: Study, attack: str) -> bool:
    told = [(result_of(one, attack)["data"], result_of(one, attack)["threat"]) for one in (a, b)]
    return told[0] == told[1]


def _pair(a: Verdict, b: Verdict) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(a.robust), torch.from_numpy(b.robust)


def comparison_data(studies: Sequence[Study]) -> list[Against]:
    """Return every pair of runs under every attack that both were judged with, on the same samples in the same ball."""
    if len(studies) < 2:
        missing("There is one run alone: `bilaw report RUN RUN` compares two.")
    made: list[Against] = []
    for attack in dict.fromkeys(name for one in studies for name in one.scores):
        of = [one for one in studies if attack in one.scores]
        pairs = [
            (a, b, pair(*_pair(a.verdicts[attack], b.verdicts[attack])))
            for a, b in combinations(of, 2)
            if _same(a, b, attack)
        ]
        for (a, b, counts), p in zip(pairs, holm([mcnemar(counts) for _, _, counts in pairs]), strict=True):
            sure = all(one.scores[attack]["reliable"] is not False for one in (a, b))
            better = (a if counts.difference > 0 else b).name if sure and p < LEVEL and counts.difference else None
            numbers = (counts.only_a, counts.only_b, counts.n, counts.difference, *bootstrap(counts), p)
            made.append(Against(attack, a.name, b.name, *numbers, better))
    return made or missing("No two runs were judged on the same samples in the same ball with the same attack.")


@styled
def comparison(studies: Sequence[Study]) -> Drawn:
    """Draw paired differences with bootstrap intervals; filled: more than chance, hollow: not, or not reliable."""
    made = comparison_data(studies)
    figure, (ax,) = axes(width=5.6, height=0.8 + 0.32 * len(made))
    for y, one in enumerate(made):
        ax.plot([100 * one.low, 100 * one.high], [y, y], color="#333333", lw=1.2)
        ax.plot(100 * one.difference, y, "o", color="#333333", mfc="#333333" if one.better else "white", ms=5)
    ax.axvline(0, color="#888888", lw=0.8)
    told = [f"{one.attack}: {one.a} − {one.b}, p = {one.p:.2g}" for one in made]
    ax.set(yticks=range(len(made)), yticklabels=told, xlabel="difference in points, 95 % paired bootstrap")
    ax.invert_yaxis()
    ax.grid(axis="x")
    return Drawn(figure, {"pairs": [one._asdict() for one in made]})
