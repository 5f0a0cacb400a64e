"""Tables as data and as text: figures recomputed from the runs, marks from SciPy, every format from one source."""

import html
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from reproduction_kit import small_grid
from safetensors.torch import load_file
from scipy import stats

from bilaw import sealed
from bilaw.datasets import digits
from bilaw.errors import Refused
from bilaw.models import build
from bilaw.recipes.protocol import Setting
from bilaw.recipes.tables import TABLES, Place
from bilaw.reproduction import formats, results
from bilaw.reproduction.figures import Figure, Seeds, collapsed, gather, seeds_in
from bilaw.reproduction.hypotheses import hypotheses
from bilaw.reproduction.inference import Mean
from bilaw.reproduction.plan import Cell
from bilaw.reproduction.table import finished, tabulate
from bilaw.reproduction.weights import hardness
from bilaw.reproduction.words import Notes
from bilaw.runs import Run

MNIST = TABLES["mnist"]


def rows_of(data, column="digits/fc1/l2/0.3"):
    (found,) = [one for one in data["columns"] if one["ours"] == column]
    return {row["row"]: row for row in found["rows"]}


@pytest.fixture(scope="module")
def made(worked):
    return tabulate(MNIST, "smoke", worked[0])


def test_figures_are_those_of_the_runs_networks(worked, made):
    out, _ = worked
    test = digits.load().test
    for name, row in rows_of(made).items():
        if not row["seeds"]:
            continue
        cell = next(c for c in cells_of("digits/fc1/l2/0.3") if c.row.name == name)
        net = build("fc1", (1, 8, 8), 10)
        net.load_state_dict(load_file(out / cell.train(0).folder / "best.safetensors"))
        with torch.no_grad():
            hits = int((net(test.x[:50] / 255).argmax(1) == test.y[:50]).sum())
        figure = row["figures"]["clean"]
        assert figure["samples"] == 50
        assert figure["ours"]["mean"] == pytest.approx(2 * hits)
        interval = stats.binomtest(hits, 50).proportion_ci(0.95, method="wilson")
        assert (figure["ours"]["low"], figure["ours"]["high"]) == pytest.approx(
            (100 * interval.low, 100 * interval.high), abs=1e-3
        )


def cells_of(column):
    from bilaw.reproduction.plan import cells

    return [cell for cell in cells(MNIST, "smoke") if str(cell.place.ours) == column]


def test_only_what_has_finished_is_in_the_table(made, tmp_path):
    rows = rows_of(made)
    assert {name for name, row in rows.items() if row["seeds"]} == {"at", "bilaw"}
    assert rows["trades"]["figures"]["clean"]["ours"] is None
    assert finished(made)
    assert not finished(tabulate(MNIST, "small", tmp_path))


def test_another_setting_than_the_papers_is_never_compared(made):
    for column in made["columns"]:
        assert column["same setting"] is False
        assert all(figure["p"] is None for row in column["rows"] for figure in row["figures"].values())
    text = formats.markdown(made)
    assert "not compared" in text
    assert "*" not in re.sub(r"\\*\*?|; \* is", "", text.split("## digits/fc1/l2/0.3")[1].split("Ours:")[0])


def test_every_format_says_the_scale_and_every_figure(made):
    texts = {"md": formats.markdown(made), "html": html.unescape(formats.page(made)), "tex": formats.latex(made)}
    row = rows_of(made)["bilaw"]
    for kind, text in texts.items():
        assert "scale: smoke" in text, kind
        assert "4 epochs on 256 images" in text, kind
        assert "BiLAW" in text, kind
        for figure in row["figures"].values():
            ours = figure["ours"]
            assert f"{ours['mean']:.1f} ({ours['low']:.1f} to {ours['high']:.1f})" in text, kind
            assert f"{figure['paper']['value']:.1f}" in text, kind
    assert texts["html"].count("<table") == texts["html"].count("</table>")
    assert texts["tex"].count(r"\begin{tabular}") == texts["tex"].count(r"\end{tabular}")


def test_all_formats_are_written_and_the_page_is_made_of_the_json(made, tmp_path):
    files = formats.write(made, tmp_path)
    assert sorted(file.name for file in files) == [f"mnist-smoke.{ending}" for ending in ("html", "json", "md", "tex")]
    assert json.loads((tmp_path / "mnist-smoke.json").read_text()) == json.loads(json.dumps(made))
    text = results.page(tmp_path)
    assert formats.markdown(made, level=2) in text


def test_the_results_page_is_the_one_its_command_makes():
    from pathlib import Path

    docs = Path(__file__).parent.parent.parent / "docs"
    made = results.page(docs / "results", "docs/results.md", "docs/results")
    assert (docs / "results.md").read_text() == made, "bilaw reproduce --page docs/results.md --results docs/results"


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "other"}'])
def test_a_page_of_what_is_no_table_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(Refused, match="--results"):
        results.page(tmp_path)


def fake(name, metrics, tmp_path, title=None):
    """Return a row's figures, seed by seed, from verdicts that are given: metric -> (seed, sample) of 0 and 1."""
    place = Place(Setting.parse("mnist/fc1/l2/0.3"), Setting.parse("mnist/fc1/l2/0.3"))
    row = next((row for row in MNIST.rows if row.name == name), MNIST.rows[0])._replace(name=name, title=title or name)
    found = {}
    for metric, verdicts in metrics.items():
        found[metric] = []
        for seed, robust in enumerate(verdicts):
            folder = tmp_path / f"{name}-{metric}-{seed}"
            folder.mkdir()
            held = {f"{metric} robust": torch.tensor(robust, dtype=torch.bool)}
            if metric == "aa":
                held["pgd-20 robust"] = torch.tensor(metrics["pgd"][seed], dtype=torch.bool)
            sealed.write(folder / "verdicts.safetensors", held, {})
            figure = Figure(seed, float(np.mean(robust)), 0, 0, len(robust), True, folder, metric)
            found[metric].append(figure)
    seeds = tuple(range(max(map(len, metrics.values()))))
    return place, Seeds(Cell(MNIST, place, row, "small"), found, seeds, (), (), {})


def drawn(rate, seeds, n=400, first=0):
    return [np.random.default_rng(first + seed).random(n) < rate for seed in range(seeds)]


def verdict_on(rows, claim):
    held = {(place, one.cell.row.name): one for place, one in rows}
    return {one.claim: one for one in hypotheses("mnist", held, {})}[claim]


def test_one_seed_is_decided_by_the_samples_that_only_one_gets_right(tmp_path):
    a, b = drawn(0.9, 1)[0], drawn(0.8, 1, first=9)[0]
    rows = [fake("bilaw", {"clean": [a]}, tmp_path, "BiLAW"), fake("at", {"clean": [b]}, tmp_path, "AT")]
    found = verdict_on(rows, "BiLAW over AT: clean accuracy")
    only_a, only_b = int((a & ~b).sum()), int((~a & b).sum())
    assert found.p == pytest.approx(stats.binomtest(only_a, only_a + only_b).pvalue)
    assert found.difference == pytest.approx(100 * (a.mean() - b.mean()))
    assert found.verdict == "holds"
    assert "these networks" in found.test
    back = [fake("bilaw", {"pgd": [b]}, tmp_path, "BiLAW"), fake("at", {"pgd": [a]}, tmp_path, "AT")]
    assert verdict_on(back, "BiLAW over AT: PGD accuracy").verdict == "does not"


def test_several_seeds_are_decided_by_the_differences_of_the_same_seeds(tmp_path):
    a, b = drawn(0.85, 3), drawn(0.80, 4, first=50)
    rows = [fake("bilaw", {"clean": a}, tmp_path, "BiLAW"), fake("at", {"clean": b}, tmp_path, "AT")]
    found = verdict_on(rows, "BiLAW over AT: clean accuracy")
    theirs = stats.ttest_rel([x.mean() for x in a], [x.mean() for x in b[:3]])
    assert found.p == pytest.approx(theirs.pvalue, abs=1e-9)
    low, high = theirs.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((100 * low, 100 * high), abs=1e-6)
    assert found.seeds == (0, 1, 2)
    assert found.verdict == ("holds" if low > 0 else "undecided")


def test_the_gap_between_pgd_and_autoattack_is_compared_sample_by_sample(tmp_path):
    pgd, weak, strong = np.ones(200, bool), np.arange(200) < 150, np.arange(200) < 180
    rows = [
        fake("gairat", {"pgd": [pgd], "aa": [weak]}, tmp_path, "GAIRAT"),
        fake("at", {"pgd": [pgd], "aa": [strong]}, tmp_path, "AT"),
    ]
    found = verdict_on(rows, "GAIRAT's gap between PGD and AutoAttack is wider than AT's")
    assert found.difference == pytest.approx(25 - 10)
    assert found.verdict == "holds"
    half = 196 * np.sqrt(0.15 * 0.85 / 200)
    assert (found.low, found.high) == pytest.approx((15 - half, 15 + half), abs=1)


@pytest.mark.parametrize(("rate", "verdict"), [(0.0, "holds"), (0.04, "does not")])
def test_an_adversary_is_no_stronger_unless_it_breaks_more(tmp_path, rate, verdict):
    plain = np.arange(2000) < 1500
    aware = plain & (np.arange(2000) >= rate * 2000)
    rows = [fake(name, {"pgd": [x]}, tmp_path) for name, x in (("none", plain), ("full", aware), ("partial", plain))]
    assert verdict_on(rows, "knowing the weights (full) makes PGD no stronger, to 0.5 points").verdict == verdict


def test_an_unreliable_figure_decides_nothing(tmp_path):
    rows = [fake(name, {"pgd": [x]}, tmp_path, name) for name, x in (("bilaw", [1] * 99), ("at", [0] * 99))]
    place, one = rows[0]
    doubted = replace(one, figures={"pgd": [replace(one.figures["pgd"][0], reliable=False)]})
    held = {(place, "bilaw"): doubted, (place, "at"): rows[1][1]}
    (found,) = hypotheses("mnist", held, {})
    assert (found.verdict, found.difference) == ("undecided", None)
    assert "unreliable" in found.test


def test_a_speedup_is_held_against_the_papers(worked):
    place = Place(*[Setting.parse("cifar-10/wrn-32-10/linf/0.031")] * 2)
    for ratio, verdict in (((6.0, 5.9, 6.2), "holds"), ((4.0, 3.9, 4.2), "does not"), ((5.8, 5.5, 6.1), "undecided")):
        (found,) = hypotheses(
            "attack-cost", {(place, "none"): SimpleNamespace(figures={})}, {(place, "f-fgsm/f-fgsm"): Mean(*ratio)}
        )
        assert found.verdict == verdict


def test_hard_samples_are_those_of_small_margin(worked):
    out, _ = worked
    folder = next(out.glob("*-bilaw-seed0-*"))
    run = Run(folder)
    values, epochs, history = run.weights()
    rows = history[epochs.index(run.status().best["epoch"])].astype(float)
    known = np.isfinite(rows).all(axis=0)
    theirs = stats.spearmanr(rows[values.index("weight")][known], rows[values.index("adversarial margin")][known])
    assert hardness(folder).mean == pytest.approx(theirs.statistic, abs=1e-9)
    assert hardness(next(out.glob("*-at-seed0-*"))) is None  # all weigh the same


def test_a_collapsed_run_is_reported_and_never_averaged_in(worked, tmp_path):
    grid, _ = small_grid(tmp_path, "fc1/l2/at")
    assert set(grid.run().values()) == {"done"}
    (cell,) = [cell for cell in cells_of("digits/fc1/l2/0.3") if cell.row.name == "at"]
    assert gather(cell, tmp_path, seeds_in(tmp_path)).collapsed == ()
    metrics = next(tmp_path.glob("*-at-seed0-*/metrics.jsonl"))
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    lines[-1]["clean"] = 0.11  # the last epoch's: it had learnt, and fell
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = tabulate(MNIST, "smoke", tmp_path)
    row = rows_of(found)["at"]
    assert (row["seeds"], row["collapsed"]) == ([], [0])
    assert all(figure["ours"] is None for figure in row["figures"].values())
    text = formats.markdown(found)
    assert "AT: collapsed to chance with seed 0, and left out" in text
    assert found["hypotheses"] == []


@pytest.mark.parametrize(
    ("clean", "lost"),
    [
        ([0.5, 0.8], False),
        ([0.8, 0.1], True),
        ([0.1, 0.1], True),
        ([0.14, 0.14], True),
        ([0.3, 0.13], False),
        ([], True),
    ],
)
def test_a_run_has_collapsed_if_it_ends_at_chance_or_never_left_it(clean, lost):
    run = SimpleNamespace(epochs=lambda: [{"clean": value} for value in [None, *clean]])
    assert collapsed(run, 10) is lost


def test_footnotes_are_numbered_once_each():
    notes = Notes()
    assert [notes.mark(text) for text in ("a", "b", "a")] == [" [1]", " [2]", " [1]"]


def test_marks_are_holms_over_the_table():
    from bilaw.reproduction.table import _mark

    ps = [0.01, 0.04, 0.03, 0.001]
    figures = [{"p": p, "differs": None} for p in ps] + [{"p": None, "differs": None}]
    _mark([{"rows": [{"figures": {str(i): figure for i, figure in enumerate(figures)}}]}])
    order = np.argsort(ps)
    by_hand = np.minimum(1, np.maximum.accumulate(np.array(ps)[order] * [4, 3, 2, 1]))
    assert [figures[i]["p"] for i in order] == pytest.approx(list(by_hand))
    assert [figure["differs"] for figure in figures] == [True, False, False, True, None]
