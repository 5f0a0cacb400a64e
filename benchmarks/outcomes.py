"""From turns to results: medians and spreads, ratios, and the file they are kept in."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import Taken
from tables import text

from bilaw.files import write_text


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the extremes and how many there were.

    >>> spread([3.0, 1.0, 2.0])
    {'median': 2.0, 'least': 1.0, 'most': 3.0, 'n': 3}
    """
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "n": len(values)}


def outcome(taken: Taken, memory: Sequence[float] | None = None) -> dict[str, Any]:
    """Return a side's figures."""
    told: dict[str, Any] = {kind: spread([one[kind] for one in taken.rounds]) for kind in ("cpu", "wall")}
    if taken.passes is not None:
        told["passes"] = taken.passes
    if memory is not None:
        told["mib"] = spread(memory)
    return told


def ratio(
    sides: Mapping[str, Mapping[str, Any]],
    slow: str,
    fast: str,
    least: float | None = None,
    most: float | None = None,
    memory: float | None = None,
) -> dict[str, Any]:
    """Return how many times as much `slow` takes as `fast`, by medians, and whether the target is met by both clocks.

    `least` is for "at least so many times faster", `most` for "at most so many times as much", `memory` for the peak.
    """
    kinds = [kind for kind in ("cpu", "wall", "mib") if kind in sides[slow] and kind in sides[fast]]
    told: dict[str, Any] = {"slow": slow, "fast": fast}
    told |= {kind: sides[slow][kind]["median"] / sides[fast][kind]["median"] for kind in kinds}
    added = [(sides[side].get("passes") or {}).get("multiply_adds") for side in (slow, fast)]
    if all(added):
        told["multiply_adds"] = added[0] / added[1]
    if least is not None:
        told |= {"target": f"at least {least:g}", "met": min(told["cpu"], told["wall"]) >= least}
    if most is not None:
        told |= {"target": f"at most {most:g}", "met": max(told["cpu"], told["wall"]) <= most}
    if memory is not None:
        told |= {"memory_target": f"at most {memory:g}", "memory_met": told["mib"] <= memory}
    return told


def keep(results: dict[str, Any], folder: Path) -> None:
    """Write the results, whole or not at all, and print the newest case as the documents will show it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{results['claim']}.json", json.dumps(results, indent=1) + "\n")
    print(text({**results, "cases": results["cases"][-1:]}), flush=True)


def case_told(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case as the results keep it: a run by its name, for where it lies is nobody's business."""
    return {**case, "run": Path(case["run"]).name} if "run" in case else dict(case)
