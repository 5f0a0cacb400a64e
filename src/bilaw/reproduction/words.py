"""A table's figures in words that Markdown, HTML and LaTeX share, and the notes below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEADINGS = {"clean": "clean", "pgd": "PGD", "aa": "AutoAttack", "speedup": "speed-up"}
MINUS = "−"


def headings(column: Mapping[str, Any], metrics: list[str]) -> list[str]:
    """Return the headings of a column's figures, ours by the attack that it was measured with."""
    told = {"pgd": {"pgd-20": "PGD-20"}, "aa": {"autoattack": "AutoAttack"}}
    found = ["row", "seeds"]
    for metric in metrics:
        attack = column["attacks"].get(metric)
        found += [told.get(metric, {}).get(attack, HEADINGS[metric] if metric != "aa" else str(attack)), "paper"]
    return [*found, "min"]


def cells(row: Mapping[str, Any], column: Mapping[str, Any], metrics: list[str], notes: Notes) -> list[str]:
    """Return a row of the table as text."""
    seeds = str(len(row["seeds"]))
    if row["collapsed"]:
        seeds += notes.mark(f"{row['title']}: collapsed to chance with seed {_listed(row['collapsed'])}, and left out")
    found = [row["title"], seeds]
    for metric in metrics:
        figure = row["figures"][metric]
        ours, without = (
            _ours(metric, figure, notes),
            [s for s in row["seeds"] if str(s) not in figure.get("values", {})],
        )
        if metric != "speedup" and without:
            ours += notes.mark(f"{row['title']}: not measured, or not to its end, with seed {_listed(without)}")
        found += [ours, _paper(metric, figure, column, notes)]
    minutes = row["minutes of training"]
    return [*found, "" if minutes is None else f"{minutes:.1f}" if minutes < 10 else f"{minutes:.0f}"]


class Notes:
    """Footnotes, numbered as they come."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        """Return the mark of a footnote, which is new or has been said before."""
        if text not in self.texts:
            self.texts.append(text)
        return f" [{self.texts.index(text) + 1}]"


def _listed(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds))


def _number(metric: str, value: float) -> str:
    return f"{value:.2f}x" if metric == "speedup" else f"{value:.1f}"


def _ours(metric: str, figure: Mapping[str, Any], notes: Notes) -> str:
    ours = figure["ours"]
    if ours is None:
        return "-"
    low, high = (_number(metric, ours[end]).removesuffix("x") for end in ("low", "high"))
    text = f"{_number(metric, ours['mean'])} ({low} to {high})"
    if figure.get("reliable") is False:
        text += notes.mark("unreliable: a check of the audit failed; the run's card.md says which")
    return text


def _paper(metric: str, figure: Mapping[str, Any], column: Mapping[str, Any], notes: Notes) -> str:
    told = figure["paper"]
    if told is None:
        return ""
    text = f"{told['value']:.1f}" + ("x" if metric == "speedup" else "")
    if told["suspect"]:
        return text + notes.mark(f"suspect in the paper: {told['suspect']}")
    if figure["difference"] is None or not column["same setting"]:
        return text
    sign = "+" if figure["difference"] >= 0 else MINUS
    return f"{text} ({sign}{abs(figure['difference']):.1f}{'*' if figure['differs'] else ''})"


def legend(data: Mapping[str, Any], column: Mapping[str, Any]) -> list[str]:
    """Return what is to be known of a column before its figures are read."""
    lines = [f"Scale {data['scale']}: {column['protocol']}."]
    if not column["same setting"]:
        lines.append(f"The paper's figures are of another setting, {column['paper']}: not compared.")
    return lines


def key(data: Mapping[str, Any]) -> str:
    """Return what the marks mean."""
    return (
        "Ours: mean and 95 % interval (Student's t over seeds; Wilson's of a single one), in percent; min: minutes of "
        "training a run. Paper: its figure, and ours less it; * is more than chance, all tests of the table taken "
        "together (Holm), the paper's figure counted as one run more."
        + (" The scale itself may be what differs." if data["scale"] != "full" else "")
    )


def claims(data: Mapping[str, Any]) -> list[list[str]]:
    """Return the claims, a row each: claim, setting, verdict, difference with interval, p, how it was tested."""
    return [
        [one["claim"], one["setting"], one["verdict"], _difference(one), _p(one["p"]), _tested(one)]
        for one in data["hypotheses"]
    ]


CLAIMS = ["claim", "setting", "verdict", "difference", "p", "tested by"]


def _difference(one: Mapping[str, Any]) -> str:
    if one["difference"] is None:
        return "-"
    digits = 1 if one["unit"] == "points" else 2
    middle, low, high = (f"{one[name]:.{digits}f}".replace("-", MINUS) for name in ("difference", "low", "high"))
    return f"{middle} ({low} to {high}) {one['unit']}"


def _p(p: float | None) -> str:
    return "" if p is None else f"{p:.2g}" if p >= 0.0001 else "<0.0001"


def _tested(one: Mapping[str, Any]) -> str:
    if not one["seeds"]:
        return str(one["test"])
    word = "seed" if len(one["seeds"]) == 1 else "seeds"
    return f"{one['test']} ({word} {_listed(one['seeds'])})"
