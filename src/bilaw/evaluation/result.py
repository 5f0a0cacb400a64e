"""What an evaluation came to, as `result.schema.json` describes it, and as people read it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bilaw.evaluation.findings import FAIL, WARN, Finding
from bilaw.evaluation.measure import ALREADY, Measured
from bilaw.evaluation.plan import Plan
from bilaw.evaluation.statistics import wilson
from bilaw.evaluation.store import SCHEMA


class Score(NamedTuple):
    """One accuracy, and how sure one can be of it."""

    attack: str
    accuracy: float
    low: float  # Wilson's 95 % interval
    high: float
    hits: int
    n: int
    broken_by: dict[str, int]
    reliable: bool | None  # None: there was no audit


def scores(measured: Measured) -> list[Score]:
    """Return the accuracy under every suite."""
    made = []
    for name, verdicts in measured.verdicts.items():
        hits, n = int(verdicts.robust.sum()), len(verdicts.robust)
        broken = {attack: int((verdicts.by == place).sum()) for place, attack in enumerate(measured.attacks[name])}
        counts = {"already": int((verdicts.by == ALREADY).sum()), **({} if name == "clean" else broken)}
        made.append(Score(name, hits / n, *wilson(hits, n), hits, n, counts, reliable(name, measured.audit)))
    return made


def reliable(suite: str, audit: Sequence[Finding]) -> bool | None:
    """Return whether no failed check concerns this suite; None where nothing was checked.

    >>> finding = Finding("gap", "fail", 0.2, "PGD promises more than there is", concerns=("pgd-20",))
    >>> reliable("pgd-20", [finding]), reliable("autoattack", [finding]), reliable("pgd-20", [])
    (False, True, None)
    """
    if not audit:
        return None
    return not any(f.verdict == FAIL and (not f.concerns or suite in f.concerns) for f in audit)


def to_json(measured: Measured, plan: Plan, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result as JSON has it; `about` describes model, data and environment."""
    found = scores(measured)
    return {
        "schema": SCHEMA,
        **about,
        "threat": {"norm": plan.norm, "eps": plan.eps},
        "settings": plan.settings(),
        "scores": [_plain(score._asdict()) for score in found],
        "audit": [_plain({**f._asdict(), "concerns": list(f.concerns)}) for f in measured.audit],
        "reliable": None if not measured.audit else all(score.reliable for score in found),
    }


def tensors(measured: Measured, index: Tensor, y: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return verdicts and points, by the name of the suite, for files."""
    verdicts = {"index": index, "y": y.cpu()}
    points = {}
    for name, found in measured.verdicts.items():
        verdicts |= {f"{name} robust": found.robust, f"{name} by": found.by, f"{name} loss": found.loss}
        if found.points is not None:
            points[name] = found.points.to(torch.float32)
    return verdicts, points


def schema() -> dict[str, Any]:
    """Return the JSON schema of a result."""
    text = resources.files("bilaw.evaluation").joinpath("result.schema.json").read_text(encoding="utf-8")
    held: dict[str, Any] = json.loads(text)
    return held


def describe(result: Mapping[str, Any]) -> list[str]:
    """Return a result as lines: a table of scores, then what the audit found."""
    rows = [
        (
            score["attack"],
            f"{score['accuracy']:.2%}",
            f"[{score['low']:.1%}, {score['high']:.1%}]",
            "" if score["reliable"] else "not audited" if score["reliable"] is None else "UNRELIABLE",
        )
        for score in result["scores"]
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}".rstrip() for row in rows]
    audit = result["audit"]
    if not audit:
        return [*lines, "audit: none (--audit 0): nothing vouches for these numbers"]
    passed = sum(finding["verdict"] not in (WARN, FAIL) for finding in audit)
    lines.append(f"audit: {passed} of {len(audit)} checks passed")
    lines += [f"  {f['verdict'].upper()} {f['check']}: {f['meaning']}" for f in audit if f["verdict"] in (WARN, FAIL)]
    return lines


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as JSON can hold them: a figure that is no number is null."""
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in values.items()}
