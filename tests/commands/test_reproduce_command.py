"""`bilaw reproduce`: every table at the scale `smoke`, the list, and what is refused."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bilaw.cli import main
from bilaw.commands import reproduce, reproduce_progress
from bilaw.commands.reproduce_progress import Standing, overview
from bilaw.recipes.tables import TABLES
from bilaw.reproduction import cost
from bilaw.reproduction.grid import Event
from bilaw.reproduction.plan import cells, choose, tasks
from bilaw.reproduction.tasks import Train

Captured = pytest.CaptureFixture[str]


def test_every_table_runs_at_the_scale_smoke(tmp_path: Path) -> None:
    words = ["reproduce", "all", "--scale", "smoke", "--jobs", "1", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "bilaw.cli", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    for table in TABLES.values():
        held = json.loads((tmp_path / "tables" / f"{table.name}-smoke.json").read_text())
        rows = [row for column in held["columns"] for row in column["rows"]]
        assert {row["row"] for row in rows} == {row.name for row in table.rows}
        assert all(row["seeds"] or row["collapsed"] for row in rows), table.name
        assert "scale: smoke" in done.stdout.split(f"# {table.title}")[1].splitlines()[0]
    assert "to draw them: bilaw report" in done.stdout or "report-smoke" in done.stdout
    assert "failed" not in done.stdout


def test_the_list_shows_rows_settings_and_cost_and_starts_nothing(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "capacity", "mnist", "--list", "--only", "tiny-cnn/linf"]) == 0
    out = capsys.readouterr().out
    for cell in choose([*cells(TABLES["capacity"], "small"), *cells(TABLES["mnist"], "small")], ["tiny-cnn/linf"]):
        assert cell.label in out
    assert "scheme.hidden 64,64" in out
    assert re.search(r"mnist/tiny-cnn/linf/0.1/at +as the column's base +\S+ (min|h)", out)
    assert "20 epochs of the paper's 100" in out
    assert re.search(r"scale small, 1 seed: 18 runs, \S+ (min|h|d) of work left", out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fashion"], "did you mean 'fashion-mnist'"),
        ([], "one or more of"),
        (["mnist", "--scale", "smal"], "did you mean 'small'"),
        (["mnist", "--seeds", "0"], "from 1 to"),
        (["mnist", "--seeds", "x"], "a whole number"),
        (["mnist", "--only", "tiny/at"], "words of a label"),
        (["mnist", "--jobs", "0"], "a whole number >= 1"),
        (["capacity", "--on", "mnist/fc1"], "DATA/MODEL/NORM/EPS"),
        (["mnist", "--on", "mnist/fc1/l2/1"], "a table of one column"),
        (["capacity", "--on", "nowhere/fc1/l2/1"], "nowhere"),
        (["capacity", "--on", "mnist/fc2/l2/1"], "fc2"),
        (["capacity", "--on", "mnist/fc1/l3/1"], "attack.norm"),
        (["mnist", "--out", "a\0b"], "NUL"),
        (["mnist", "--out", "file"], "is a file"),
        (["--page", "x.md", "--results", "none"], "--results"),
        (["--page", "", "--results", "."], "the name of a file"),
        (["mnist", "--results", ""], "--results"),
        (["mnist", "--only", "tiny-cnn/linf/at", "--on", "x"], "--on"),
        (["mnist", "--speeds", "1"], "did you mean --seeds"),
    ],
)
def test_what_is_not_accepted_is_refused_before_anything_is_written(
    words: list[str], said: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main(["reproduce", *(words if "--scale" in words else [*words, "--scale", "smoke"])]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_data_that_are_not_here_are_named_before_anything_starts(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILAW_DATA", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "mnist", "--only", "fc1/l2/at"]) == 2
    assert "bilaw data get mnist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_tables_of_nothing_say_so(tmp_path: Path, capsys: Captured) -> None:
    assert main(["reproduce", "mnist", "--tables-only", "--out", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out == "mnist: nothing has finished yet\n"
    assert not (tmp_path / "none").exists()


def test_a_page_is_made_of_a_folder_of_tables(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "tables").mkdir()
    page = tmp_path / "page.md"
    assert main(["reproduce", "--page", str(page), "--results", str(tmp_path / "tables")]) == 0
    assert "There are none yet." in page.read_text()


# The overview.

TASKS = tasks(choose(cells(TABLES["mnist"], "smoke"), ["fc1/l2/at", "fc1/l2/bilaw"]), 1)
COSTS = dict.fromkeys(TASKS, 60.0)
FIRST, SECOND = (task for task in TASKS.values() if isinstance(task, Train))


def test_off_a_terminal_there_is_a_line_for_whatever_happens() -> None:
    out = io.StringIO()
    with overview(Console(file=out, width=20), "scale smoke", TASKS, COSTS, 2) as hear:
        hear(Event("begun", FIRST, (1,)))
        hear(Event("at", FIRST, ("train", 1, 4)))
        hear(Event("killed", FIRST, (-9,)))
        hear(Event("done", FIRST))
        hear(Event("busy", SECOND, (True,)))
        hear(Event("busy", SECOND, (False,)))
        hear(Event("failed", SECOND, ("[no] markup",)))
    lines = out.getvalue().splitlines()
    assert lines[0] == "scale smoke: 2 runs, about 2 min"
    assert [line.split("] ", 1)[1] for line in lines[1:]] == [
        f"killed: {FIRST.name}, with status -9; it goes on",
        f"train: {FIRST.name}: done",
        f"another command is at {SECOND.name}: waiting for it",
        f"failed: {SECOND.name}: [no] markup",
    ]
    assert lines[-1].startswith("[0/2 runs, 1 failed, ")


@pytest.mark.parametrize("width", [30, 80])
def test_on_a_terminal_the_overview_shows_done_running_and_left(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width)
    with overview(console, "scale smoke", TASKS, COSTS, 2) as hear:
        for name in TASKS:
            hear(Event("begun", TASKS[name], (1,)))
        hear(Event("at", FIRST, ("train", 1, 4)))
        hear(Event("failed", SECOND, ("why [not]",)))
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", out.getvalue())
    assert max(map(len, text.splitlines())) <= max(width, len(f"failed: {SECOND.name}: why [not]"))
    assert f"failed: {SECOND.name}: why [not]" in text
    if width == 80:
        assert "0 of 2 runs  1 failed" in text
        assert "25%" in text
        assert "━train" not in text
        assert " left" in text


def test_the_time_left_follows_the_pace_of_what_has_been_done() -> None:
    times = iter([0.0, 50.0, 100.0, 100.0])
    standing = Standing(TASKS, COSTS, 2, now=lambda: next(times))
    assert [len(TASKS), sum(COSTS.values())] == [4, 240]
    standing.hear(Event("begun", FIRST, (1,)))
    standing.hear(Event("at", FIRST, ("train", 0, 4)))
    standing.hear(Event("done", FIRST))
    assert standing.left() == pytest.approx(100 / 60 * 180)  # 60 expected seconds have taken 100
    assert standing.share() == pytest.approx(1 / 4)


def test_a_run_is_done_once_it_is_measured() -> None:
    standing = Standing(TASKS, COSTS, 2)
    mine = [task for task in TASKS.values() if task.folder == FIRST.folder]
    for task in mine[:-1]:
        standing.hear(Event("done", task))
    assert standing.runs() == (0, 0, 2)
    standing.hear(Event("found", mine[-1]))
    assert standing.runs() == (1, 0, 2)


# What it costs.


def test_estimates_grow_with_what_is_asked_for() -> None:
    def of(table: str, row: str) -> float:
        (cell,) = choose(cells(TABLES[table], "small"), [f"tiny-cnn/linf/{row}"])
        return cost.seconds(cell.train(0), 1)

    plain, at, bilaw = (of("mnist", row) for row in ("plain", "at", "bilaw"))
    assert plain < at / 4
    assert 1.8 < bilaw / at < 2.6
    assert of("attack-cost", "f-fgsm/f-fgsm") < of("attack-cost", "pgd/pgd") / 1.8


def test_processes_are_as_many_as_cores_tasks_and_wishes_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {(2, 9): (2, 1), (2, 1): (1, 1), (8, 2): (2, 4), (64, 10): (10, 6), (64, 100): (64, 1)}
    for (count, todo), crew in have.items():
        monkeypatch.setattr(cost, "cores", lambda count=count: count)
        assert cost.crew(todo, None, gpu=False) == crew
    assert cost.crew(100, 3, gpu=False) == (3, 1)
    assert cost.crew(100, None, gpu=True)[0] == cost.SHARED


def test_a_wide_network_is_known_to_need_more_memory() -> None:
    full = {cell.place.ours.model: cell for cell in cells(TABLES["cifar10"], "full") if cell.row.name == "bilaw"}
    small, wide = (cost.memory(full[name].train(0), 1) for name in ("small-cnn", "wrn-32-10"))
    assert 500 < small < 3000 < wide < 30_000
    assert cost.free() > 100


def test_the_figures_are_drawn_by_the_report_where_there_is_one(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(reproduce, "find_spec", lambda name: object())
    monkeypatch.setattr(reproduce.subprocess, "run", lambda words, check: asked.append(words))
    reproduce._draw([tmp_path / "a", tmp_path / "b"], tmp_path / "page.html")
    ((*_, verb, a, b, out, page, figures, kind),) = asked
    assert [verb, a, b] == ["report", str(tmp_path / "a"), str(tmp_path / "b")]
    assert [out, page, figures, kind] == ["--out", str(tmp_path / "page.html"), "--figures", "pdf"]
    monkeypatch.setattr(reproduce, "find_spec", lambda name: None)
    reproduce._draw([tmp_path / "a"], tmp_path / "page.html")
    assert capsys.readouterr().out.startswith(f"to draw them: bilaw report {tmp_path / 'a'} --out")


def test_spans_are_said_in_their_units() -> None:
    said = [reproduce_progress.span(seconds) for seconds in (None, 0, 89, 5399, 5401, 86400 * 2 - 1, 86400 * 3)]
    assert said == ["?", "1 min", "1 min", "90 min", "1.5 h", "48.0 h", "3.0 d"]
