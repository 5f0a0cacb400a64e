"""How a run went: curves over the epochs, time and memory, and what the audit says of its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bilaw.analysis.drawn import Drawn, axes, looks, plain_ticks, styled
from bilaw.analysis.study import Study, missing
from bilaw.evaluation.findings import FAIL, PASS, WARN
from bilaw.evaluation.store import beside, read_seconds

CURVES = {
    "loss": "training loss",
    "clean": "clean accuracy on select",
    "robust": "PGD accuracy on select",
    "lr": "learning rate",
    "ess": "effective sample size",
    "seconds": "seconds an epoch",
}
MARKS = {PASS: "✓", WARN: "!", FAIL: "✗"}


def curves_data(studies: Sequence[Study]) -> dict[str, Any]:
    """Return the training curves: run -> "epoch" and each of CURVES (e,), NaN where an epoch has none; "best"."""
    made = {}
    for one in (study for study in studies if study.epochs):
        held: dict[str, Any] = {"epoch": np.array([line["epoch"] for line in one.epochs])}
        seconds = {line["epoch"]: line["seconds"] for line in one.timing}  # of an epoch that was done twice, the last
        for name in CURVES:
            values = [seconds.get(line["epoch"]) if name == "seconds" else line.get(name) for line in one.epochs]
            held[name] = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        best = one.status.best if one.status else None
        made[one.name] = {**held, "best": int(best["epoch"]) if best else None}
    return made or missing("No epoch is finished yet.")


@styled
def curves(studies: Sequence[Study]) -> Drawn:
    """Draw loss, accuracies on select, learning rate, effective sample size and time; a ring marks the best epoch."""
    data = curves_data(studies)
    figure, made = axes(columns=3, rows=2, width=2.8, height=2.2)
    for ax, (key, title) in zip(made, CURVES.items(), strict=True):
        for name, look in looks(list(data)):
            held = data[name]
            many = len(held["epoch"]) > 25
            ax.plot(held["epoch"] + 1, held[key], label=name, **{**look, "marker": "" if many else look["marker"]})
            if key == "robust" and held["best"] is not None:
                at = held["epoch"] == held["best"]
                ax.plot(held["epoch"][at] + 1, held[key][at], "o", mfc="none", ms=9, color=look["color"])
        ax.set(title=title, xlabel="epoch")
        if key == "lr":
            ax.set_yscale("log")
            plain_ticks(ax.yaxis)
    made[0].legend()
    return Drawn(figure, data)


def cost_data(studies: Sequence[Study]) -> dict[str, Any]:
    """Return run -> "phase", "seconds" (training, select, each attack, the probe), "ms a step", "peak MiB"."""
    made = {}
    for one in studies:
        phases = {"training": sum(line["seconds"] for line in one.timing)}
        phases["select"] = sum(line["select_seconds"] for line in one.timing)
        for folder in beside(one.run.evaluation):
            phases |= {f"evaluation: {name}": value for name, value in read_seconds(folder).items()}
        if one.probe is not None:
            phases["report: probe"] = one.probe.facts["seconds"]
        peaks = [line["peak_mib"] for line in one.timing if line["peak_mib"] is not None]
        steps = [line["ms_a_step"] for line in one.timing]
        held = {"phase": list(phases), "seconds": np.array(list(phases.values()), dtype=np.float64)}
        made[one.name] = {
            **held,
            "ms a step": float(np.median(steps)) if steps else None,
            "peak MiB": max(peaks, default=None),
        }
    timed = any(sum(line["seconds"] for line in one.timing) > 0 or one.probe is not None for one in studies)
    return made if timed else missing("Nothing has been timed yet.")


@styled
def cost(studies: Sequence[Study]) -> Drawn:
    """Draw where the time went, on a logarithmic scale, with the peak of memory."""
    data = cost_data(studies)
    phases = list(dict.fromkeys(phase for held in data.values() for phase in held["phase"]))
    figure, (ax,) = axes(width=5.2, height=0.9 + 0.3 * len(phases))
    for place, (name, look) in enumerate(looks(list(data))):
        held, high = data[name], 0.8 / len(data)
        y = [phases.index(phase) + (place - (len(data) - 1) / 2) * high for phase in held["phase"]]
        told = name if held["peak MiB"] is None else f"{name}: at most {held['peak MiB']:,.0f} MiB"
        ax.barh(y, held["seconds"], high, color=look["color"], edgecolor="white", lw=0.4, label=told)
    ax.set(yticks=range(len(phases)), yticklabels=phases, xlabel="seconds (logarithmic)", xscale="log")
    plain_ticks(ax.xaxis)
    ax.invert_yaxis()
    ax.grid(axis="x")
    ax.legend()
    return Drawn(figure, data)


def audit_data(one: Study) -> dict[str, Any]:
    """Return the audit's findings: "check", "verdict", "figure", "meaning", "concerns", each a list."""
    found = one.audit()
    if not one.results:
        missing("There is no finished evaluation to audit; `bilaw evaluate` makes one.")
    if not found:
        missing("The evaluation was not audited (--audit 0): nothing vouches for its numbers.")
    return {key: [finding[key] for finding in found] for key in ("check", "verdict", "figure", "meaning", "concerns")}


@styled
def audit(one: Study) -> Drawn:
    """Draw the audit as a panel: a line a check, its mark, and what was seen."""
    data = audit_data(one)
    count = len(data["check"])
    figure, (ax,) = axes(width=7, height=0.4 + 0.2 * count)
    ax.set(xlim=(0, 1), ylim=(count, -1))
    ax.axis("off")
    for y, (check, verdict, meaning) in enumerate(zip(data["check"], data["verdict"], data["meaning"], strict=True)):
        heavy = "normal" if verdict == PASS else "bold"
        ax.text(0.0, y, MARKS[verdict], fontsize=9, fontweight=heavy)
        ax.text(0.03, y, f"{verdict}", fontsize=7, fontweight=heavy)
        ax.text(0.09, y, check, fontsize=7, fontweight=heavy)
        ax.text(0.24, y, meaning, fontsize=7)
    return Drawn(figure, data)
