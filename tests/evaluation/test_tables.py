"""A comparison as text: what programs and papers read back is what was compared."""

import csv
import io
import json
import re

import pytest
from test_compare import write

from bilaw.cli import main
from bilaw.evaluation.tables import escaped, to_latex, to_markdown

ODD = "a_b & 50% <i>|{x}~^\\"


@pytest.fixture
def folders(tmp_path):
    shares = {"a": (0.5, True), ODD: (0.7, None), "c": (0.9, False)}
    return [str(write(tmp_path / name, share, reliable=sure)) for name, (share, sure) in shares.items()]


def said(capsys, folders, kind):
    assert main(["compare", *folders, "--format", kind]) == 0
    return capsys.readouterr().out


def test_csv_reads_back_as_the_json(folders, capsys):
    rows = list(csv.DictReader(io.StringIO(said(capsys, folders, "csv"))))
    held = json.loads(said(capsys, folders, "json"))
    assert [row["run"] for row in rows] == ["a", "a", ODD, ODD, "c", "c"]
    for row in rows:
        cell = held["rows"][row["run"]][row["attack"]]
        assert [float(row[key]) for key in ("accuracy", "low", "high")] == [
            cell[k] for k in ("accuracy", "low", "high")
        ]
        assert row["reliable"] == {True: "yes", False: "no", None: "not audited"}[cell["reliable"]]
        assert row["best"] == ("yes" if cell["best"] else "no")
    assert [row["best"] for row in rows if row["attack"] == "pgd-20"] == ["no", "yes", "no"]


def test_markdown_is_a_table_and_names_are_no_markup(folders, capsys):
    lines = said(capsys, folders, "markdown").splitlines()
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[:5]]
    assert [len(row) for row in cells] == [3] * 5
    assert cells[2][2].strip() == "50.0% [45.1%, 54.9%]"
    assert cells[3][2].strip().startswith("**70.0%** [")
    assert cells[3][2].strip().endswith("(not audited)")
    assert cells[4][2].strip().endswith("UNRELIABLE")
    assert "<i>" not in lines[3]


def test_latex_has_booktabs_and_escapes_what_tex_would_eat(folders, capsys):
    text = said(capsys, folders, "latex")
    assert all(rule in text for rule in ("\\toprule", "\\midrule", "\\bottomrule", "booktabs"))
    rows = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert [line.count("&") - line.count("\\&") for line in rows] == [2] * 4
    assert "\\textbf{70.0}\\textsuperscript{?}" in rows[2]
    assert "90.0\\textsuperscript{!}" in rows[3]
    assert "% !: unreliable" in text
    assert (
        escaped(ODD)
        == r"a\_b \& 50\% \textless{}i\textgreater{}\textbar{}\{x\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


def test_seeds_show_their_deviation():
    from bilaw.evaluation.compare import Cell, Comparison
    from bilaw.evaluation.statistics import spread

    held = spread([0.5, 0.6, 0.7])
    found = Comparison(["pgd-20"], {"g": {"pgd-20": Cell(held.mean, held, held.low, held.high, True, False)}}, [])
    assert "60.0% ± 10.0% [35.2%, 84.8%]" in to_markdown(found)
    assert "60.0 $\\pm$ 10.0 {\\footnotesize [35.2, 84.8]}" in to_latex(found)


def test_formats_that_there_are_not(folders, capsys):
    assert main(["compare", *folders, "--format", "latx"]) == 2
    assert "did you mean 'latex'?" in capsys.readouterr().err
    assert main(["compare", *folders, "--format", "csv", "--json"]) == 2
    assert "--json" in capsys.readouterr().err
