"""The grid: what is killed goes on, what fails is reported, what needs it is left out, the rest is done."""

import os
import signal
import time

import pytest
from reproduction_kit import ONLY, kill, kinds, reproduce, small_grid, table_of

from bilaw.recipes.tables import TABLES
from bilaw.reproduction import formats
from bilaw.reproduction.grid import LIVES
from bilaw.reproduction.table import tabulate
from bilaw.reproduction.tasks import Evaluate, Time, Train
from bilaw.runs import Run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="takes fork and SIGKILL")


def table(out, folder):
    formats.write(tabulate(TABLES["mnist"], "smoke", out), folder)
    return table_of(folder)


@pytest.fixture(scope="module")
def whole(worked, tmp_path_factory):
    """A grid that nobody disturbed: its folder, its events, its table."""
    return *worked, table(worked[0], tmp_path_factory.mktemp("tables"))


def test_every_task_is_done_once_and_measured_as_soon_as_it_is_trained(whole):
    out, events, _ = whole
    begun = [event.task for event in events if event.kind == "begun"]
    assert [type(task) for task in begun] == [Train, Evaluate, Train, Evaluate]
    assert [task.folder for task in begun[::2]] == [task.folder for task in begun[1::2]]
    assert all(Run(out / task.folder).finished() for task in begun)


def test_what_is_finished_is_found(whole):
    out, _, _ = whole
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    grid, events = small_grid(out)
    assert set(grid.run().values()) == {"done"}
    assert {event.kind for event in events} == {"found"}
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before


def test_cells_that_are_killed_go_on_to_the_same_table(whole, tmp_path):
    """Each process is killed twice: as it begins, and once it has said how far it is."""
    struck = {}

    def react(event, grid):
        name = event.task.name
        if event.kind in ("begun", "at") and struck.get(name, 0) < 2 and name in grid.running:
            struck[name] = struck.get(name, 0) + 1
            kill(grid.running[name].process.pid)

    grid, events = small_grid(tmp_path / "grid", react=react)
    assert set(grid.run().values()) == {"done"}
    assert len(kinds(events, "killed")) == sum(struck.values()) == 8
    assert table(tmp_path / "grid", tmp_path / "tables") == whole[2]


def test_a_cell_that_is_asked_to_stop_by_others_is_gone_on_with(tmp_path):
    struck = []

    def react(event, grid):
        if event.kind == "at" and not struck:
            struck.append(event.task.name)
            os.kill(grid.running[event.task.name].process.pid, signal.SIGTERM)

    grid, events = small_grid(tmp_path, "fc1/l2/bilaw", react=react)
    assert set(grid.run().values()) == {"done"}
    assert kinds(events, "killed") == struck


def test_a_cell_that_is_killed_again_and_again_is_reported_and_the_rest_is_done(tmp_path):
    def react(event, grid):
        if event.kind == "begun" and "-bilaw-" in event.task.name:
            kill(grid.running[event.task.name].process.pid)

    grid, events = small_grid(tmp_path, react=react)
    outcome = grid.run()
    bilaw = next(name for name in outcome if "-bilaw-" in name and "." not in name.rpartition("-")[2])
    assert f"killed {LIVES} times" in outcome[bilaw]
    assert kinds(events, "begun").count(bilaw) == LIVES
    (left,) = [name for name, why in outcome.items() if why.startswith("needs ")]
    assert left.startswith(bilaw)
    assert sorted(why == "done" for why in outcome.values()) == [False, False, True, True]


def test_a_cell_that_fails_is_reported_with_its_reason_and_the_rest_is_done(tmp_path):
    grid, _ = small_grid(tmp_path)
    broken = next(name for name, task in grid.tasks.items() if isinstance(task, Train) and "-at-" in name)
    (tmp_path / broken).write_text("no folder")
    outcome = grid.run()
    assert broken in outcome[broken] or "config.toml" in outcome[broken]
    assert sum(why == "done" for why in outcome.values()) == 2
    assert "Traceback" in (tmp_path / "logs" / f"{broken}.log").read_text()
    (tmp_path / broken).unlink()
    grid, events = small_grid(tmp_path)
    assert set(grid.run().values()) == {"done"}
    assert len(kinds(events, "found")) == 2


def test_memory_and_jobs_bound_what_runs_at_a_time(tmp_path):
    most = {}
    for name, given in {"jobs": {"jobs": 1}, "memory": {"jobs": 4, "budget": 150.0}, "both": {"jobs": 2}}.items():
        seen = []
        grid, _ = small_grid(
            tmp_path / name, react=lambda event, grid, seen=seen: seen.append(len(grid.running)), **given
        )
        grid.run()
        most[name] = max(seen)
    assert most == {"jobs": 1, "memory": 1, "both": 2}


def test_steps_are_timed_with_nothing_else_of_ours_running(tmp_path):
    beside = []

    def react(event, grid):
        kinds = {type(one.task) for one in grid.running.values()}
        beside.append(Time in kinds and len(grid.running) > 1)

    grid, _ = small_grid(tmp_path, "pgd/pgd,f-fgsm/f-fgsm", table="attack-cost", jobs=2, react=react)
    assert set(grid.run().values()) == {"done"}
    assert any(isinstance(task, Time) for task in grid.tasks.values())
    assert not any(beside)
    found = tabulate(TABLES["attack-cost"], "smoke", tmp_path)
    base, *_, last = found["columns"][0]["rows"]
    assert base["figures"]["speedup"]["ours"] == {"mean": 1, "low": 1, "high": 1}
    assert last["figures"]["speedup"]["ours"]["mean"] > 1
    assert all(one["claim"].endswith("as pgd/pgd") for one in found["hypotheses"])


WORDS = ("mnist", "--scale", "smoke", "--only", ONLY, "--jobs", "2")


@pytest.mark.parametrize("moments", [(0,), pytest.param((0, 0.2, 0.4, 0.8, 1.6), marks=pytest.mark.long)])
def test_a_parent_that_is_killed_is_gone_on_with_to_the_same_table(whole, tmp_path, moments):
    for seconds in moments:  # after the first sign of a run
        parent = reproduce(*WORDS, "--out", tmp_path / "grid")
        until = time.monotonic() + 120
        while not list(tmp_path.glob("grid/*-seed0-*/config.toml")):
            assert parent.poll() is None, parent.stdout.read()
            assert time.monotonic() < until
            time.sleep(0.02)
        time.sleep(seconds)
        parent.kill()
        parent.wait()
        parent.stdout.close()
    parent = reproduce(*WORDS, "--out", tmp_path / "grid")
    said = parent.communicate()[0]
    assert parent.returncode == 0, said
    assert table_of(tmp_path / "grid" / "tables") == whole[2]


def test_two_parents_at_once_share_the_work(whole, tmp_path):
    parents = [reproduce(*WORDS, "--out", tmp_path / "grid", "--results", tmp_path / name) for name in "ab"]
    said = [parent.communicate()[0] for parent in parents]
    assert [parent.returncode for parent in parents] == [0, 0], said
    assert table_of(tmp_path / "a") == table_of(tmp_path / "b") == whole[2]
    for file in (tmp_path / "grid").glob("*/metrics.jsonl"):
        assert len([line for line in Run(file.parent).metrics() if "event" not in line]) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_parent_that_is_asked_to_stop_saves_and_says_how_to_go_on(tmp_path, number):
    parent = reproduce(*WORDS, "--out", tmp_path / "grid")
    until = time.monotonic() + 120
    while not list(tmp_path.glob("grid/*-seed0-*/config.toml")):
        assert time.monotonic() < until
        time.sleep(0.02)
    parent.send_signal(number)
    said = parent.communicate()[0]
    assert parent.returncode in (130, 0), said  # it may have been about to end
    if parent.returncode == 130:
        assert "the same command goes on" in said
        assert "Traceback" not in said
    states = {Run(file.parent).status().state for file in (tmp_path / "grid").glob("*/config.toml")}
    assert states <= {"interrupted", "finished"}
