"""What the paper claims, claim by claim, tested on the runs there are: holds, does not, or undecided.

Runs of the same seed share starting weights, splits and batches, so two methods are compared seed by seed: with several
seeds by Student's t on the differences, which speaks of the methods; with one by the samples that only one of the two
networks gets right (McNemar), which speaks of these two networks alone. Each claim was stated by the paper before, so
each is tested by itself at 5 %.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bilaw.evaluation.statistics import Pair, bootstrap, mcnemar, pair, spread, t_probability
from bilaw.evaluation.store import read_verdicts
from bilaw.recipes.paper import printed
from bilaw.recipes.tables import Place
from bilaw.reproduction.figures import Figure, Seeds
from bilaw.reproduction.inference import Mean
from bilaw.reproduction.weights import hardness

LEVEL = 0.05
SLACK = 0.5  # points by which an adversary that knows the weights may be the stronger and still count as no stronger
HOLDS, NOT, UNDECIDED = "holds", "does not", "undecided"
METRICS = {"clean": "clean accuracy", "pgd": "PGD accuracy", "aa": "AutoAttack accuracy"}
Held = Mapping[tuple[Place, str], Seeds]


@dataclass(frozen=True)
class Hypothesis:
    """One claim, in one setting."""

    claim: str
    setting: str
    verdict: str
    difference: float | None  # in points, or what `unit` says
    low: float | None
    high: float | None
    p: float | None
    seeds: tuple[int, ...]
    test: str
    unit: str = "points"

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        held = {name: round(v, 6) if isinstance(v, float) else v for name, v in asdict(self).items()}
        return {**held, "seeds": list(self.seeds)}


def hypotheses(table: str, held: Held, fast: Mapping[tuple[Place, str], Mean]) -> list[Hypothesis]:
    """Return the verdict on every claim that the rows of a table bear on."""
    found = []
    for place in dict.fromkeys(place for place, _ in held):
        rows = {name: one for (where, name), one in held.items() if where == place}
        found += [*_better(place, rows), *_gaps(place, rows), *_adversaries(place, rows), *_weights(place, rows)]
        found += _speed(table, place, {name: one for (where, name), one in fast.items() if where == place})
    return found


# Of two rows, the first is claimed to be the better in these figures.
BETTER = (
    ("bilaw", "at", ("clean", "pgd")),
    ("bilaw-trades", "trades", ("clean", "aa")),
    ("bilaw", "non-parametric", ("clean", "pgd", "aa")),
    ("multiclass-margin", "margin", ("clean", "pgd")),
)


def _better(place: Place, rows: Mapping[str, Seeds]) -> Iterator[Hypothesis]:
    for first, second, metrics in BETTER:
        for metric in metrics:
            if first in rows and second in rows and metric in rows[first].figures:
                a, b = rows[first], rows[second]
                claim = f"{a.cell.row.title} over {b.cell.row.title}: {METRICS[metric]}"
                yield from _sound(claim, place, _paired(a.figures[metric], b.figures[metric]))


def _sound(
    claim: str, place: Place, pairs: Sequence[tuple[Figure, Figure]], slack: float = 0.0
) -> Iterator[Hypothesis]:
    """Compare the pairs without an unreliable figure; where there are only such pairs, they say nothing."""
    sound = [both for both in pairs if not any(one.reliable is False for one in both)]
    if sound:
        yield _compared(claim, place, sound, slack)
    elif pairs:
        yield _doubtful(claim, place, pairs)


def _doubtful(claim: str, place: Place, pairs: Sequence[tuple[Figure, Figure]]) -> Hypothesis:
    """Return what figures say that are unreliable: nothing."""
    seeds, why = tuple(a.seed for a, _ in pairs), "none: the audit calls the figures unreliable"
    return Hypothesis(claim, str(place.ours), UNDECIDED, None, None, None, None, seeds, why)


def _paired(a: Sequence[Figure], b: Sequence[Figure]) -> list[tuple[Figure, Figure]]:
    theirs = {one.seed: one for one in b}
    return [(one, theirs[one.seed]) for one in a if one.seed in theirs]


def _compared(claim: str, place: Place, pairs: Sequence[tuple[Figure, Figure]], slack: float = 0.0) -> Hypothesis:
    """Compare seed by seed; `slack` (points) is how much worse the first may be and still bear the claim out."""
    seeds = tuple(a.seed for a, _ in pairs)
    counts = [pair(a.robust(), b.robust()) for a, b in pairs]
    differences = [100 * one.difference for one in counts]
    if len(pairs) > 1 and len(set(differences)) > 1:
        held = spread(differences)
        p = _t(differences)
        verdict = judged(held.low, held.high, slack)
        return Hypothesis(claim, str(place.ours), verdict, held.mean, held.low, held.high, p, seeds, "paired t, seeds")
    all_of_them = Pair(*(sum(values) for values in zip(*counts, strict=True)))
    low, high = (100 * end for end in bootstrap(all_of_them))
    p = mcnemar(all_of_them)
    sure = p < LEVEL or bool(slack)
    verdict = judged(low, high, slack) if sure else UNDECIDED
    middle = statistics.fmean(differences)
    return Hypothesis(claim, str(place.ours), verdict, middle, low, high, p, seeds, "McNemar, these networks")


def judged(low: float, high: float, slack: float = 0.0) -> str:
    """Return what an interval of a difference says of a claim that it is above zero (with slack: not below -slack).

    >>> judged(0.1, 2.0), judged(-2.0, -0.1), judged(-0.3, 0.4), judged(-0.3, 0.4, slack=0.5)
    ('holds', 'does not', 'undecided', 'holds')
    """
    return HOLDS if low > -slack else NOT if high < -slack else UNDECIDED


def _t(differences: Sequence[float]) -> float:
    """Return the two-sided p of Student's paired t."""
    k = len(differences)
    t = abs(statistics.fmean(differences)) / (statistics.stdev(differences) / k**0.5)
    return min(1.0, 2 * (1 - t_probability(t, k - 1)))


def _gaps(place: Place, rows: Mapping[str, Seeds]) -> Iterator[Hypothesis]:
    """GAIRAT: more of its PGD accuracy is lost to AutoAttack than of AT's, on the same samples.

    Reliable or not: that PGD's number cannot be relied on is what the claim says.
    """
    if not {"gairat", "at"} <= rows.keys() or not {"pgd", "aa"} <= rows["at"].figures.keys():
        return
    pairs = _paired(rows["gairat"].figures["aa"], rows["at"].figures["aa"])
    gaps = [(_gap(a), _gap(b)) for a, b in pairs]
    if not gaps:
        return
    seeds, claim = tuple(a.seed for a, _ in pairs), "GAIRAT's gap between PGD and AutoAttack is wider than AT's"
    apart = [100 * float((a - b).mean()) for a, b in gaps]
    if len(apart) > 1 and len(set(apart)) > 1:
        held, test = spread(apart), "paired t, seeds"
        middle, low, high, p = held.mean, held.low, held.high, _t(apart)
    else:
        each = np.concatenate([a - b for a, b in gaps])
        low, high = drawn_anew(100 * each)
        middle, p, test = statistics.fmean(apart), None, "bootstrap over samples, these networks"
    yield Hypothesis(claim, str(place.ours), judged(low, high), middle, low, high, p, seeds, test)


def _gap(strong: Figure) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return, sample by sample, whether it withstands PGD but not the strongest attack of the same evaluation."""
    held = read_verdicts(strong.folder)
    pgd = next(name for name in held if name.startswith("pgd-") and name.endswith(" robust"))
    lost: np.ndarray[Any, np.dtype[np.float64]] = (held[pgd].double() - strong.robust().double()).numpy()
    return lost


def drawn_anew(values: np.ndarray[Any, np.dtype[np.float64]], seed: int = 0) -> tuple[float, float]:
    """Return the bootstrap's 95 % interval of a mean."""
    drawn = np.random.default_rng(seed)
    means = [values[drawn.integers(len(values), size=len(values))].mean() for _ in range(2000)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _adversaries(place: Place, rows: Mapping[str, Seeds]) -> Iterator[Hypothesis]:
    """Adversaries that know the weights leave at least the accuracy that plain PGD leaves."""
    for name in ("partial", "full"):
        if {"none", name} <= rows.keys():
            claim = f"knowing the weights ({name}) makes PGD no stronger, to {SLACK:g} points"
            yield from _sound(claim, place, _paired(rows[name].figures["pgd"], rows["none"].figures["pgd"]), SLACK)


def _weights(place: Place, rows: Mapping[str, Seeds]) -> Iterator[Hypothesis]:
    """Hard samples weigh more: rank correlation of weight and margin over the training samples is negative."""
    for name in ("bilaw", "bilaw-trades", "multiclass-margin"):
        if name not in rows:
            continue
        found = {seed: rho for seed, run in rows[name].learnt.items() if (rho := hardness(run)) is not None}
        if not found:
            continue
        claim, values = f"{rows[name].cell.row.title}: hard samples weigh more", [rho.mean for rho in found.values()]
        if len(values) > 1 and len(set(values)) > 1:
            held, test = spread(values), "t over seeds, of Spearman's rho"
            middle, low, high, p = held.mean, held.low, held.high, _t(values)
        else:
            (middle, low, high), p, test = next(iter(found.values())), None, "Spearman's rho, this network"
        verdict = judged(-high, -low)
        setting, unit = str(place.ours), "rho of weight and adversarial margin"
        yield Hypothesis(claim, setting, verdict, middle, low, high, p, tuple(found), test, unit)


def _speed(table: str, place: Place, fast: Mapping[str, Mean]) -> Iterator[Hypothesis]:
    for row, ratio in fast.items():
        told = printed(table, row, str(place.paper), "speedup")
        if told is None or told.value == 1:
            continue
        claim = f"{row} is at least {told.value:g} times as fast as pgd/pgd"
        verdict = judged(ratio.low - told.value, ratio.high - told.value)
        yield Hypothesis(claim, str(place.ours), verdict, *ratio, None, (), "bootstrap over turns", "times as fast")
