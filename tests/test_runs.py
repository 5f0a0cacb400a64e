"""The run folder: made whole, read back, cut back, held by one at a time."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from bilaw import runs, status
from bilaw.config import Config, LogConfig
from bilaw.runs import Run

SPLITS = {name: torch.arange(n) for name, n in {"train": 5, "meta": 2, "select": 3}.items()}


def create(path, config=None):
    return Run.create(path, config or Config(), {"device": "cpu"}, SPLITS)


def row(value):
    return np.full((3, 5), value, dtype=np.float16)


def test_a_new_run_says_what_is_known(tmp_path):
    run = create(tmp_path / "some" / "where", Config(seed=3))
    assert Run.open(tmp_path / "some" / "where").config() == Config(seed=3)
    assert run.environment() == {"device": "cpu"}
    assert {name: part.tolist() for name, part in run.splits().items()} == {
        name: part.tolist() for name, part in SPLITS.items()
    }
    assert (run.metrics(), run.epochs(), run.timing()) == ([], [], [])
    assert run.weights()[1:2] == ([],)
    assert run.weights()[2].shape == (0, 3, 5)
    assert run.lengths() == {"metrics.jsonl": 0, "timing.jsonl": 0, "weights.f16": 0}
    assert [path.name for path in (tmp_path / "some").iterdir()] == ["where"]


def test_a_run_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "describe_weights", lambda self, *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        create(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_will_do_and_a_full_one_will_not(tmp_path):
    (tmp_path / "empty").mkdir()
    run = create(tmp_path / "empty")
    with pytest.raises(ValueError, match="to go on with that run: bilaw train --resume"):
        create(run.path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="a new or an empty folder"):
        create(tmp_path / "file")
    with pytest.raises(ValueError, match=r"with a config\.toml in it"):
        Run.open(tmp_path)


def whole(path):
    run = Run.open(path)
    assert run.status().state == "killed"  # nobody holds it
    assert run.splits().keys() == SPLITS.keys()
    assert [part.name for part in path.iterdir() if part.name.startswith(".")] == []


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_what_it_points_to_is_filled(tmp_path, there):
    target = tmp_path / "disk" / "runs"
    target.mkdir(parents=True)
    target = target if there else target / "new"
    (tmp_path / "link").symlink_to(target)
    assert create(tmp_path / "link").path == tmp_path / "link"
    assert (tmp_path / "link").is_symlink()
    whole(target)
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "link"}


@pytest.mark.parametrize("parent", ["writable", "read-only"])
def test_a_mount_point_is_filled(tmp_path, monkeypatch, parent):
    (tmp_path / "mount").mkdir()

    def busy(self):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "rmdir", busy)
    monkeypatch.setattr(os, "access", lambda path, mode: parent == "writable")
    create(tmp_path / "mount")
    whole(tmp_path / "mount")
    assert [path.name for path in tmp_path.iterdir()] == ["mount"]


def test_a_mount_point_that_is_full_is_left_empty(tmp_path, monkeypatch):
    (tmp_path / "mount").mkdir()
    move = shutil.move

    def full(source, target):
        if Path(target).name == "config.toml":
            raise OSError(28, "No space left on device")
        return move(source, target)

    def busy(self):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "rmdir", busy)
    monkeypatch.setattr(shutil, "move", full)
    with pytest.raises(OSError, match=r"cannot write .*mount: No space left on device"):
        create(tmp_path / "mount")
    assert not list((tmp_path / "mount").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["mount"]


def epoch(number, t):
    return {"t": t, "epoch": number}


def test_what_was_rolled_back_does_not_count_in_metrics_or_weights(tmp_path):
    run = create(tmp_path / "run")
    for number, value in ((0, 0), (1, 1), (2, 2)):
        run.add_weights(row(value))
        run.add(epoch(number, number + 1))
    run.add({"event": "overfitting", "back_to": 0})
    assert [line["epoch"] for line in run.epochs()] == [0]
    assert run.weights()[1] == [0]
    run.add({"event": "note", "text": "x"})
    run.add_weights(row(7))
    assert run.weights()[1] == [0]  # a kill may leave a row without its line
    run.add(epoch(1, 2))
    values, epochs, rows = run.weights()
    assert values == runs.WEIGHT_VALUES
    assert (epochs, rows[:, 0, 0].tolist()) == ([0, 1], [0, 7])
    assert (run.path / "weights.f16").stat().st_size == 4 * 2 * 15
    assert len(run.metrics()) == 6


def test_rows_of_some_epochs_only(tmp_path):
    run = create(tmp_path / "run", Config(log=LogConfig(weights_every=2)))
    for number in range(4):
        if number % 2 == 0:
            run.add_weights(row(number))
        run.add(epoch(number, number))
    run.add({"event": "overfitting", "back_to": 2})
    assert run.weights()[1] == [0, 2]
    assert run.weights()[2][:, 0, 0].tolist() == [0, 2]


def test_readers_pass_over_half_a_line(tmp_path):
    run = create(tmp_path / "run")
    run.add(epoch(0, 1))
    run.add_timing({"epoch": 0, "seconds": float("nan")})
    for name in ("metrics.jsonl", "timing.jsonl"):
        with (run.path / name).open("a") as out:
            out.write('{"t": 2, "ep')
    assert run.metrics() == [epoch(0, 1)]
    assert run.timing() == [{"epoch": 0, "seconds": None}]


def test_cutting_back(tmp_path):
    run = create(tmp_path / "run")
    run.add(epoch(0, 1))
    lengths = run.lengths()
    run.add(epoch(1, 2))
    run.add_weights(row(1))
    (run.path / ".best.safetensors.0123.part").write_text("half")
    (run.checkpoints / ".000000003.safetensors.0123.part").write_text("half")
    run.cut(lengths)
    assert run.lengths() == lengths
    assert run.metrics() == [epoch(0, 1)]
    assert not list(run.path.rglob("*.part"))
    run.add_weights(row(1))
    with pytest.raises(ValueError, match="the 1000 it had at the checkpoint, or more"):
        run.cut({**lengths, "metrics.jsonl": 1000})
    assert run.lengths()["weights.f16"] == 30  # nothing was cut
    run.cut({})
    assert set(run.lengths().values()) == {0}


def test_status_and_who_holds_the_run(tmp_path):
    run = create(tmp_path / "run")
    assert run.status().state == "killed"  # said to run, and nobody does
    with run.hold():
        assert run.status().state == "running"
        with pytest.raises(ValueError, match=r"nobody is at work on; process \d+ on "):
            run.hold()
        assert run.status().state == "running"
        run.set_status("finished", 2, 2, {"robust": 0.5})
    found = run.status()
    assert (found.state, found.epoch, found.best) == ("finished", 2, {"robust": 0.5})
    run.hold().close()


def test_a_pid_that_somebody_else_has_now_does_not_hold_a_run(tmp_path):
    run = create(tmp_path / "run")
    held = json.loads((run.path / "status.json").read_text())
    (run.path / "status.json").write_text(json.dumps({**held, "pid": 1, "host": "another"}))
    assert run.status().state == "killed"
    run.hold().close()


def test_a_file_system_without_locks_is_worked_on_all_the_same(tmp_path, monkeypatch):
    run = create(tmp_path / "run")

    def no_locks(file, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(status.fcntl, "flock", no_locks)
    with run.hold(), run.hold():
        pass


def test_logger_ids_are_made_once(tmp_path):
    run = create(tmp_path / "run")
    assert run.logger_id("wandb", lambda: "a") == ("a", False)
    assert run.logger_id("wandb", lambda: "b") == ("a", True)
    assert run.logger_id("mlflow", lambda: "c") == ("c", False)
    assert Run(run.path).logger_id("mlflow", lambda: "d") == ("c", True)


def test_runs_are_found_oldest_first_and_drafts_are_not(tmp_path):
    import os

    for place, name in enumerate(("b", "a", ".c.0123")):
        os.utime(create(tmp_path / name).config_file, (place, place))
    assert [run.path.name for run in runs.find(tmp_path)] == ["b", "a"]
    assert [run.path.name for run in runs.find(tmp_path / "a")] == ["a"]
    assert runs.find(tmp_path / "absent") == []
