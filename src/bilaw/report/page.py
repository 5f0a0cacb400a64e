"""The page: a template, the plotting library, our script and the runs' numbers, all in one file."""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bilaw.analysis.measures import Array
from bilaw.analysis.study import Study
from bilaw.errors import Refused, refuse
from bilaw.files import write_text
from bilaw.report.embed import Columns, as_json, packed
from bilaw.report.payload import columns, payload, pictures, pools
from bilaw.report.sprites import Sheet
from bilaw.version import __version__

SIZE = 6.0  # MB, of a page
SCRIPTS = ("core.js", "figures.js", "runs.js", "weights.js", "cloud.js", "pictures.js", "explorer.js", "main.js")
MARK = '<meta name="generator" content="bilaw'  # how a page of ours is known


def page(studies: Sequence[Study], size: float = SIZE) -> str:
    """Return the page of several runs, of at most `size` MB where the pictures alone decide it."""
    held, of = pools(studies)
    facts = payload(studies, held, of)
    blocks: dict[str, str] = {"plotly": plotly()}
    for i, pool in enumerate(held):
        made = Columns()
        made.add("place", pool.place, "uint32")
        made.add("y", pool.y, "uint16")
        facts["pools"][i]["columns"] = made.about
        blocks[f"pool-{i}"] = packed(bytes(made.data))
    for i, (one, place) in enumerate(zip(studies, of, strict=True)):
        if place is not None:
            made = columns(one, held[place])
            facts["runs"][i]["columns"] = made.about
            blocks[f"run-{i}"] = packed(bytes(made.data))
    shell = _template(studies)
    used = len(shell.encode()) + sum(map(len, blocks.values())) + len(packed(as_json(facts)))
    room = max((size * 1e6 - used) * 3 / 4 - 80e3, 0)  # base64; and where each picture is
    clean, changed = pictures(studies, held, room)
    for i, sheet in enumerate(clean):
        if sheet is not None and len(sheet.rows):
            facts["pools"][i]["sheet"] = _shape(sheet)
            blocks |= _pictures(f"clean-{i}", sheet, sheet.rows)
    for i, (one, place, sheet) in enumerate(zip(studies, of, changed, strict=True)):
        if sheet is not None and place is not None and len(sheet.rows):
            facts["runs"][i]["sheet"] = _shape(sheet)
            blocks |= _pictures(f"change-{i}", sheet, held[place].rows(one)[sheet.rows])
    blocks["facts"] = packed(as_json(facts))
    scripts = [f'<script type="text/plain" id="{name}">{text}</script>' for name, text in blocks.items()]
    return shell.replace("<!--blocks-->", "\n".join(scripts))


def write(studies: Sequence[Study], out: Path, size: float = SIZE) -> int:
    """Write the page, and return its size in bytes."""
    text = page(studies, size)
    write_text(out, text)
    return len(text.encode())


def check_out(out: Path) -> None:
    """Refuse to write over anything but a page of ours."""
    if out.is_dir() or out.suffix.lower() not in (".html", ".htm"):
        refuse("--out", str(out), "the name of an HTML file, such as report.html")
    if out.exists():
        with out.open("rb") as held:
            if MARK.encode() not in held.read(2000):
                refuse("--out", str(out), "a new file, or an earlier report: this is neither")


@cache
def plotly() -> str:
    """Return the plotting library as it comes with its Python package, deflated."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        raise Refused("the page's figures need plotly; pip install 'bilaw[report]' brings it")
    return packed((Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js").read_bytes())


def _template(studies: Sequence[Study]) -> str:
    """Return the page without what it shows."""
    texts = {name: asset(name) for name in ("page.html", "style.css", *SCRIPTS)}
    title = " and ".join(one.name for one in studies) if len(studies) < 4 else f"{len(studies)} runs"
    shell = texts["page.html"].replace("<!--title-->", html.escape(f"{title} · bilaw report"))
    shell = shell.replace("<!--version-->", html.escape(__version__)).replace("/*style*/", texts["style.css"])
    return shell.replace("/*script*/", "\n".join(texts[name] for name in SCRIPTS))


def asset(name: str) -> str:
    """Return a file of the page."""
    return (resources.files("bilaw.report") / "assets" / name).read_text(encoding="utf-8")


def _shape(sheet: Sheet) -> dict[str, Any]:
    height, width = sheet.side
    return {
        "columns": sheet.columns,
        "height": height,
        "width": width,
        "count": len(sheet.rows),
        "levels": sheet.levels,
    }


def _pictures(name: str, sheet: Sheet, rows: Array) -> dict[str, str]:
    """Return a sheet, and which rows of the pool its pictures are of."""
    where = np.ascontiguousarray(rows).astype("<u4").tobytes()
    return {name: b64encode(sheet.data).decode(), f"{name}-rows": packed(where)}
