"""Several evaluations side by side: what differs by more than chance, on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from bilaw.errors import refuse
from bilaw.evaluation.statistics import Pair, Spread, bootstrap, holm, mcnemar, pair, spread, welch
from bilaw.evaluation.store import read_result, read_verdicts

LEVEL = 0.05


class Judged(NamedTuple):
    """One finished evaluation."""

    name: str
    group: str  # runs that differ by their seed alone are one group
    result: dict[str, Any]
    verdicts: dict[str, Tensor]

    def score(self, attack: str) -> dict[str, Any] | None:
        """Return the score under one attack, if it was run."""
        return next((score for score in self.result["scores"] if score["attack"] == attack), None)


class Cell(NamedTuple):
    """One accuracy of the table."""

    accuracy: float
    spread: Spread | None  # of several seeds
    low: float
    high: float
    reliable: bool | None
    best: bool  # better than every other by more than chance


class Difference(NamedTuple):
    """Two groups under one attack."""

    attack: str
    a: str
    b: str
    difference: float  # of a less b
    interval: tuple[float, float] | None  # paired bootstrap; None between groups of several seeds
    counts: Pair | None
    p: float | None  # McNemar's, or Welch's between groups of seeds; adjusted for the number of rivals (Holm)


class Comparison(NamedTuple):
    """The table, and what stands behind its marks."""

    attacks: list[str]
    rows: dict[str, dict[str, Cell]]  # group -> attack -> cell
    differences: list[Difference]  # the best of each column against every other


def open_judged(folder: Path, name: str, group: str) -> Judged:
    """Return a finished evaluation."""
    result = read_result(folder)
    if result is None:
        refuse("RUN", str(folder), "a finished evaluation; `bilaw evaluate` makes one, and goes on with a killed one")
    return Judged(name, group, result, read_verdicts(folder))


def compare(judged: Sequence[Judged]) -> Comparison:
    """Return the table of several evaluations, which must be of the same samples in the same ball."""
    first = judged[0]
    for other in judged[1:]:
        for what in ("data", "threat"):
            if other.result[what] != first.result[what]:
                mine, theirs = _words(first.result[what]), _words(other.result[what])
                refuse("RUN", other.name, f"the same {what} as {first.name}, {mine}; it has {theirs}")
    groups: dict[str, list[Judged]] = {}
    for one in judged:
        groups.setdefault(one.group, []).append(one)
    attacks = [s["attack"] for s in first.result["scores"] if all(one.score(s["attack"]) for one in judged)]
    rows: dict[str, dict[str, Cell]] = {name: {} for name in groups}
    differences: list[Difference] = []
    for attack in attacks:
        cells = {name: _cell(members, attack) for name, members in groups.items()}
        # An unreliable number is shown, but takes no mark, and takes none from others.
        rivals = {name: cell for name, cell in cells.items() if cell.reliable is not False} or cells
        top = max(rivals, key=lambda name: rivals[name].accuracy)
        found = [_difference(attack, groups[top], groups[name]) for name in rivals if name != top]
        known = [one.p for one in found if one.p is not None]
        adjusted = iter(holm(known))
        found = [one._replace(p=next(adjusted)) if one.p is not None else one for one in found]
        differences += found
        best = (
            cells[top].reliable is not False
            and bool(found)
            and all(one.p is not None and one.p < LEVEL and one.difference > 0 for one in found)
        )
        for name, cell in cells.items():
            rows[name][attack] = cell._replace(best=best and name == top)
    return Comparison(attacks, rows, differences)


def _cell(members: Sequence[Judged], attack: str) -> Cell:
    scores = [score for one in members if (score := one.score(attack))]
    values = [score["accuracy"] for score in scores]
    flags = [score["reliable"] for score in scores]
    sure = False if False in flags else None if None in flags else True
    if len(values) == 1:
        return Cell(values[0], None, scores[0]["low"], scores[0]["high"], sure, False)
    held = spread(values)
    return Cell(held.mean, held, held.low, held.high, sure, False)


def _difference(attack: str, a: Sequence[Judged], b: Sequence[Judged]) -> Difference:
    names = attack, a[0].group, b[0].group
    if len(a) == len(b) == 1:
        counts = pair(a[0].verdicts[f"{attack} robust"], b[0].verdicts[f"{attack} robust"])
        return Difference(*names, counts.difference, bootstrap(counts), counts, mcnemar(counts))
    means = [[score["accuracy"] for one in group if (score := one.score(attack))] for group in (a, b)]
    apart = sum(means[0]) / len(a) - sum(means[1]) / len(b)
    # One seed says nothing of how much seeds differ: between it and several there is no test.
    several = min(len(a), len(b)) > 1
    # Seeds that agree to the last sample say nothing of how much seeds differ either.
    p = welch(*means) if several and all(len(set(values)) > 1 for values in means) else None
    return Difference(*names, apart, None, None, p)


def _words(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())
