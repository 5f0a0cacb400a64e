"""The tables of docs/performance.md, from benchmarks/results/*.json and nothing else.

    python benchmarks/tables.py [--check]

Each table stands between two comments, `<!-- begin: NAME (made by ...) -->` and `<!-- end: NAME -->`; what is outside
of them is written by hand and stays. NAME is a file of results. `--check` writes nothing and fails if a table is not
what its results say. Results without a place are refused; a place without results says that there are none.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT, RESULTS = ROOT / "docs/performance.md", ROOT / "benchmarks/results"
MAKER = "python benchmarks/tables.py"
MISSING = "No figures: `make bench` has not been run since this changed.\n"
BLOCK = re.compile(r"<!-- begin: (?P<name>[\w-]+) \([^>]*\) -->\n.*?<!-- end: (?P=name) -->\n", re.DOTALL)
WORDS = {"cpu": "processor time", "wall": "by the clock", "mib": "peak memory", "multiply_adds": "multiply-adds"}


def text(results: Mapping[str, Any]) -> str:
    """Return all the tables of one claim, in Markdown."""
    parts = [_about(results)]
    for case in results["cases"]:
        parts += [f"**{case['title']}**", *_case(case)]
    return "\n\n".join(parts) + "\n"


def _about(results: Mapping[str, Any]) -> str:
    machine = results["machine"]
    where = machine.get("gpu") or machine["processor"]
    libraries = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    allocator = " ".join(f"{name}={value}" for name, value in machine["allocator"].items()) or "glibc's own settings"
    told = f"`{results['command']}`: {results['threads']} thread(s) of {machine['cores']} core(s), {where}; "
    told += f"{libraries}, Python {machine['python']}; allocator: {allocator}; load {machine['load']:g}."
    return told + (" **Quick: small sizes, no figures to quote.**" if results["quick"] else "")


def _case(case: Mapping[str, Any]) -> list[str]:
    parts = []
    if case.get("sides"):
        parts.append(_sides(case["sides"], {ratio["slow"]: ratio for ratio in case.get("ratios", [])}))
    if case.get("ratios"):
        parts.append(_ratios(case["ratios"]))
    if case.get("rows"):
        parts.append(grid(case["rows"]))
    if case.get("notes"):
        parts.append(" ".join(f"{note[0].upper()}{note[1:]}." for note in case["notes"]))
    return parts


COLUMNS: dict[str, Callable[[Mapping[str, Any]], str | None]] = {
    "processor s": lambda side: spread(side.get("cpu")),
    "clock s": lambda side: spread(side.get("wall")),
    "rows forward": lambda side: count(side.get("passes", {}).get("forward")),
    "rows back": lambda side: count(side.get("passes", {}).get("backward")),
    "10⁹ multiply-adds": lambda side: number(side["passes"]["multiply_adds"] / 1e9) if _added(side) else None,
    "peak MiB": lambda side: spread(side.get("mib")),
    "rounds": lambda side: str(side["cpu"]["n"]) if "cpu" in side else None,
}


def _added(side: Mapping[str, Any]) -> bool:
    return "multiply_adds" in (side.get("passes") or {})


def _sides(sides: Mapping[str, Mapping[str, Any]], ratios: Mapping[str, Any]) -> str:
    rows = []
    for name, side in sides.items():
        row = {"side": name, **{column: of(side) for column, of in COLUMNS.items()}, **side.get("told", {})}
        rows.append(row)
    return grid(rows)


def _ratios(ratios: list[Mapping[str, Any]]) -> str:
    rows = []
    for one in ratios:
        row = {"ratio": f"{one['slow']} / {one['fast']}"}
        row |= {WORDS[kind]: f"{one[kind]:.2f}" for kind in WORDS if kind in one}
        row["target"] = _target(one)
        rows.append(row)
    return grid(rows)


def _target(one: Mapping[str, Any]) -> str | None:
    told = [f"{one['target']}: {'met' if one['met'] else 'missed'}"] if "target" in one else []
    if "memory_target" in one:
        told.append(f"memory {one['memory_target']}: {'met' if one['memory_met'] else 'missed'}")
    return ", ".join(told) or None


def grid(rows: list[Mapping[str, Any]]) -> str:
    """Return rows as a table; a column that no row has anything in is left out.

    >>> print(grid([{"side": "a", "s": 1.5, "x": None}, {"side": "b", "s": 12345}]))
    | side | s |
    |---|---|
    | a | 1.50 |
    | b | 12,345 |
    """
    names = list(dict.fromkeys(name for row in rows for name, value in row.items() if value is not None))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(cell(row.get(name)) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return spread(value) or ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else number(value)


def spread(values: Mapping[str, float] | None) -> str | None:
    """Return a median and the extremes.

    >>> spread({"median": 2.0, "least": 1.25, "most": 30.0, "n": 5})
    '2.00 (1.25 to 30.0)'
    """
    if values is None:
        return None
    if values["n"] == 1:
        return number(values["median"])
    return f"{number(values['median'])} ({number(values['least'])} to {number(values['most'])})"


def number(value: float) -> str:
    """Return three digits or more.

    >>> number(0.01234), number(1.234), number(123.4), number(12345.6)
    ('0.0123', '1.23', '123', '12,346')
    """
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def count(value: int | None) -> str | None:
    """Return a count with its thousands set apart."""
    return None if value is None else f"{value:,}"


def block(name: str, body: str) -> str:
    """Return a table between its comments."""
    return f"<!-- begin: {name} (made by `{MAKER}`) -->\n\n{body}\n<!-- end: {name} -->\n"


def filled(document: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the document with every table as its results say."""
    places = [found["name"] for found in BLOCK.finditer(document)]
    if lost := sorted(set(results) - set(places)):
        raise SystemExit(f"{', '.join(lost)}: results without a place in the document")
    if len(places) > len(set(places)):
        raise SystemExit("a table has two places in the document")

    def made(name: str) -> str:
        return block(name, text(results[name]) if name in results else MISSING)

    return BLOCK.sub(lambda found: made(found["name"]), document)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    read = parser.parse_args()
    document = DOCUMENT.read_text(encoding="utf-8")
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}
    made = filled(document, results)
    if read.check and made != document:
        raise SystemExit(f"docs/performance.md is not what the results say; run {MAKER}")
    if not read.check:
        DOCUMENT.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
