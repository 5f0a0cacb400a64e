"""A table's data as Markdown, HTML and LaTeX (booktabs). Each says the scale."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bilaw.files import explained, write_text
from bilaw.reproduction.words import CLAIMS, Notes, cells, claims, headings, key, legend


def write(data: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write a table in every format, and return the files."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    stem = data["name"]
    texts = {
        "json": json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "md": markdown(data),
        "html": page(data),
        "tex": latex(data),
    }
    for ending, text in texts.items():
        write_text(folder / f"{stem}.{ending}", text)
    return [folder / f"{stem}.{ending}" for ending in texts]


def _columns(data: Mapping[str, Any], notes: Notes) -> list[tuple[Mapping[str, Any], list[str], list[list[str]]]]:
    """Return the columns that have something in them: heading, and the rows there are figures of."""
    found = []
    for column in data["columns"]:
        rows = [row for row in column["rows"] if row["seeds"] or row["collapsed"]]
        if rows:
            text = [cells(row, column, data["metrics"], notes) for row in rows]
            found.append((column, headings(column, data["metrics"]), text))
    return found


def _title(data: Mapping[str, Any]) -> str:
    return f"{data['title']} (scale: {data['scale']})"


def markdown(data: Mapping[str, Any], level: int = 1) -> str:
    """Return the table as Markdown, its headings from `level` on."""
    notes = Notes()
    lines = [f"{'#' * level} {_title(data)}", ""]
    if data["about"]:
        lines += [data["about"], ""]
    for column, names, rows in _columns(data, notes):
        lines += [f"{'#' * (level + 1)} {column['ours']}", "", " ".join(legend(data, column)), ""]
        lines += [*_pipes(names, rows), ""]
    lines += [key(data), "", f"Trained on: {'; '.join(data['machines'])}.", "", "```", data["command"], "```", ""]
    lines += [f"{number}. {text}." for number, text in enumerate(notes.texts, 1)] + [""] * bool(notes.texts)
    if data["hypotheses"]:
        lines += [f"{'#' * (level + 1)} The paper's claims", "", *_pipes(CLAIMS, claims(data)), ""]
    return "\n".join(lines)


def _pipes(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    table = [names, ["---"] * len(names), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]


STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { padding: .2em .8em; text-align: right; border-bottom: 1px solid #8884 }
th:first-child, td:first-child, .words td, .words th { text-align: left }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } }"""


def page(data: Mapping[str, Any]) -> str:
    """Return the table as a page of HTML that needs nothing else."""
    notes, say = Notes(), html.escape
    parts = [f"<h1>{say(_title(data))}</h1>", f"<p>{say(data['about'])}</p>" if data["about"] else ""]
    for column, names, rows in _columns(data, notes):
        parts += [f"<h2>{say(column['ours'])}</h2>", f"<p>{say(' '.join(legend(data, column)))}</p>"]
        parts.append(_html(names, rows))
    parts += [f"<p>{say(key(data))}</p>", f"<p>Trained on: {say('; '.join(data['machines']))}.</p>"]
    parts += [f"<pre>{say(data['command'])}</pre>"]
    if notes.texts:
        parts += ["<ol>", *(f"<li>{say(text)}.</li>" for text in notes.texts), "</ol>"]
    if data["hypotheses"]:
        parts += ["<h2>The paper's claims</h2>", _html(CLAIMS, claims(data), "words")]
    body = "\n".join(part for part in parts if part)
    head = f'<meta charset="utf-8"><title>{say(_title(data))}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _html(names: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    opened = f'<table class="{kind}">' if kind else "<table>"
    return f"{opened}<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


SPECIAL = {"\\": r"\textbackslash{}", "−": "$-$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$"}
SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}


def _tex(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in text)


def latex(data: Mapping[str, Any]) -> str:
    """Return the table as LaTeX, a table a column, for a document that uses booktabs."""
    notes, blocks = Notes(), [f"% {data['command']}"]
    for column, names, rows in _columns(data, notes):
        caption = f"{_title(data)}, {column['ours']}. {' '.join(legend(data, column))} {key(data)}"
        blocks += [
            r"\begin{table}",
            rf"\caption{{{_tex(caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(names) - 1)}}}",
            r"\toprule",
            *_tabular(names, rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    blocks += [f"% [{number}] {text}" for number, text in enumerate(notes.texts, 1)]
    if data["hypotheses"]:
        blocks += [r"\begin{tabular}{llllll}", r"\toprule", *_tabular(CLAIMS, claims(data)), r"\bottomrule"]
        blocks.append(r"\end{tabular}")
    return "\n".join(blocks) + "\n"


def _tabular(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in (names, *rows)]
    return [lines[0], r"\midrule", *lines[1:]]
