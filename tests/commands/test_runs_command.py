"""`bilaw runs`: what it says of runs in any state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bilaw.cli import main
from bilaw.commands.runs import ago
from bilaw.config import Config
from bilaw.recipes.methods import method
from bilaw.runs import Run
from bilaw.training.watch import Epoch

BEST = Epoch(2, 0.1, 1.0, 1.0, 0.75, 0.5, float("nan"))._asdict()
STATUS = {"state": "failed", "epoch": 1, "epochs": 2, "best": None, "updated": 1.0, "pid": 1, "host": "here"}
PARTS = {"train": torch.arange(4), "meta": torch.arange(0), "select": torch.arange(4, 6)}


def make(path: Path, config: Config, state: str, epoch: int) -> Run:
    run = Run.create(path, config, {}, PARTS)
    run.set_status(state, epoch, config.optim.epochs, BEST if epoch else None)
    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "runs" / "one", Config(), "finished", 100)
    make(tmp_path / "runs" / "[red]two", method("bilaw"), "running", 3)  # and nobody holds its lock
    three = make(tmp_path / "runs" / "three", method("mail-trades"), "running", 0)
    with three.hold():
        yield tmp_path / "runs"


def test_each_run_is_a_line_with_its_method_state_and_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    heading, *lines, legend = capsys.readouterr().out.splitlines()
    assert heading.split() == ["run", "method", "status", "epochs", "clean", "robust", "seen"]
    rows = sorted(line.split()[:6] for line in lines)
    assert rows == [
        ["[red]two", "bilaw", "killed", "3/100", "75.0%", "50.0%"],
        ["one", "at", "finished", "100/100", "75.0%", "50.0%"],
        ["three", "mail-trades", "running", "0/100", "-", "-"],
    ]
    assert "select split" in legend


def test_off_a_terminal_a_run_is_one_line_however_long_its_name(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    make(folder / ("long" * 40), method("bilaw-trades"), "finished", 9)
    assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 4 + 1
    assert sum(line.startswith("long" * 40 + "  bilaw-trades  finished") for line in lines) == 1


def test_json_is_one_object_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--json", str(folder)]) == 0
    rows = {row["run"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["one"]["best"]["robust"] == 0.5
    assert rows["one"]["path"] == str(folder / "one")
    assert (rows["three"]["status"], rows["[red]two"]["status"]) == ("running", "killed")


def test_one_run_may_be_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--json", "runs/one"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == "one"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("status.json", "{"),
        ("status.json", "[]"),
        ("status.json", '{"state": "finished"}'),
        ("status.json", None),
        ("status.json", json.dumps({**STATUS, "best": 3})),
        ("status.json", json.dumps({**STATUS, "best": {"clean": "high"}})),
        ("status.json", json.dumps({**STATUS, "best": [0.5]})),
        ("status.json", json.dumps({**STATUS, "epoch": None})),
        ("status.json", json.dumps({**STATUS, "updated": "today"})),
        ("status.json", json.dumps({**STATUS, "updated": float("nan")})),
        ("status.json", json.dumps({**STATUS, "state": ["running"]})),
        ("status.json", json.dumps({**STATUS, "more": 1})),
        ("status.json", "[" * 100_000),
        ("config.toml", "nonsense ="),
        ("config.toml", "[attack]\nepsilon = 1"),
    ],
)
def test_a_damaged_run_is_named_and_the_others_shown(
    file: str, content: str | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = folder / "one" / file
    damaged.unlink() if content is None else damaged.write_text(content)
    assert main(["runs"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("bilaw: runs/one cannot be read: ")
    assert "three" in out
    assert not any(line.startswith("one ") for line in out.splitlines())


def test_no_runs_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 0
    assert capsys.readouterr().out == "no runs in runs; `bilaw train` makes one\n"
    assert main(["runs", "."]) == 0
    assert main(["runs", "--json"]) == 0


def test_lengths_of_time_are_rounded_to_their_largest_unit() -> None:
    assert [ago(s) for s in (-3, 0, 59, 60, 3599, 3600, 86400 * 3)] == [
        "0 s", "0 s", "59 s", "1 min", "60 min", "1 h", "3 d",
    ]  # fmt: skip
