"""A page of every table in a folder, made of their JSON files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bilaw.errors import refuse
from bilaw.files import write_text
from bilaw.recipes.protocol import SCALES
from bilaw.recipes.tables import TABLES
from bilaw.reproduction.formats import markdown
from bilaw.reproduction.table import SCHEMA

HEAD = """\
# Results of our own

Not to be edited: `bilaw reproduce --page {page} --results {folder}` makes this page out of the JSON files
there, which hold every figure seed by seed. [reproduce.md](reproduce.md) tells how the figures come about, how they are
tested, and how to make them anew.
"""


def page(folder: Path, name: str = "docs/results.md", shown: str | None = None) -> str:
    """Return the page, in Markdown: the largest scale first, tables in the paper's order."""
    held = sorted((read(file) for file in folder.glob("*.json")), key=_place)
    parts = [HEAD.format(page=name, folder=shown or folder)]
    parts += [markdown(data, level=2) for data in held]
    if not held:
        parts.append("There are none yet.\n")
    return "\n".join(parts).rstrip("\n") + "\n"


def write(folder: Path, file: Path) -> None:
    """Write it."""
    if not folder.is_dir():
        refuse("--results", str(folder), "a folder of tables, as `bilaw reproduce` writes them")
    write_text(file, page(folder, file.as_posix(), folder.as_posix()))


def read(file: Path) -> dict[str, Any]:
    """Return a table's data, refusing anything that is none."""
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        refuse("--results", str(file), f"a table's JSON that is intact ({error})")
    if not isinstance(held, dict) or held.get("schema") != SCHEMA:
        refuse("--results", str(file), f"a table of schema {SCHEMA}")
    return held


def _place(data: dict[str, Any]) -> tuple[int, int, str]:
    scales, tables = list(SCALES), list(TABLES)
    known = data["table"] in tables
    return -scales.index(data["scale"]), tables.index(data["table"]) if known else len(tables), data["title"]
