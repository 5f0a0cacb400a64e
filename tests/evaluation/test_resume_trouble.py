"""Folders that are not to be written to, or are something else, end an evaluation with a clear message."""

import os

import evaluation_kit as kit
import pytest

from bilaw import evaluate

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="takes fork")


def judged(model, out):
    return evaluate(model, *kit.digits(20), eps=kit.EPS, attacks=("fgsm",), audit=0, out=out)


@pytest.fixture
def shared(zygote, tmp_path_factory):
    """A folder that a process without rights may read, and in it the weights."""
    place = tmp_path_factory.mktemp("open")
    for folder in (place, *list(place.parents)[:3]):
        if folder.name.startswith(("open", "pytest", "popen")):
            folder.chmod(0o755)
    (place / "weights.safetensors").write_bytes(zygote.weights.read_bytes())
    (place / "weights.safetensors").chmod(0o644)
    return place


@forks
def test_a_full_disk_is_named_and_nothing_is_lost(zygote, tmp_path):
    out = tmp_path / "out"
    assert zygote.evaluate(out, kill=("replaced", "clean-0-000016", 1)) < 0
    kept = {path: path.read_bytes() for path in out.rglob("*.safetensors")}
    assert len(kept) == 2
    assert zygote.evaluate(out, trouble="no room") == 3
    assert "cannot write " in zygote.said()
    assert "clean-0-000032.safetensors: File too large" in zygote.said()
    assert {path: path.read_bytes() for path in out.rglob("*.safetensors")} == kept
    assert not list(out.rglob("*.part"))
    assert zygote.evaluate(out) == 0


@forks
def test_the_command_ends_on_a_full_disk_in_a_line(zygote, tmp_path):
    argv = ["evaluate", str(zygote.weights), "--model", "fc1", "--data", "digits", "--eps", "0.1"]
    argv += ["--attacks", "pgd-1", "--samples", "20", "--audit", "0", "--out", str(tmp_path / "out")]
    assert zygote.ask("cli", argv=argv, trouble="no room") == 1
    (line,) = [line for line in zygote.said().splitlines() if line.startswith("bilaw: ")]
    assert "cannot write " in line
    assert "File too large" in line
    assert "Traceback" not in zygote.said()


@forks
def test_a_folder_without_the_right_to_write_is_named(zygote, shared):
    (shared / "out").mkdir()
    weights = str(shared / "weights.safetensors")
    assert zygote.ask("evaluate", out=str(shared / "out"), weights=weights, trouble="no rights") == 3
    assert f"PermissionError(13, 'cannot write {shared / 'out'}" in zygote.said()
    assert list((shared / "out").iterdir()) == []


@forks
def test_a_finished_evaluation_can_be_read_where_nothing_can_be_written(zygote, shared):
    asked = {"out": str(shared / "out"), "weights": str(shared / "weights.safetensors")}
    assert zygote.ask("evaluate", **asked) == 0, zygote.said()
    for path in (shared / "out").iterdir():
        path.chmod(0o644)
    assert zygote.ask("evaluate", **asked, trouble="no rights") == 0, zygote.said()


def test_a_folder_of_something_else_is_refused(honest, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="a new or an empty folder, or that of an evaluation"):
        judged(honest, tmp_path)
    with pytest.raises(ValueError, match="a new or an empty folder, or that of an evaluation"):
        judged(honest, tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_folder_and_one_below_a_new_one_will_do(honest, tmp_path):
    judged(honest, tmp_path)
    judged(honest, str(tmp_path / "deep" / "er"))
    assert (tmp_path / "deep" / "er" / "result.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '"no"'])
@pytest.mark.parametrize("file", ["manifest.json", "result.json"])
def test_a_damaged_file_of_facts_is_refused_by_name(honest, tmp_path, file, text):
    judged(honest, tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=file):
        judged(honest, tmp_path)


def test_missing_verdicts_of_a_finished_evaluation_are_named(honest, tmp_path):
    judged(honest, tmp_path)
    (tmp_path / "verdicts.safetensors").unlink()
    with pytest.raises((ValueError, OSError), match=r"verdicts\.safetensors"):
        judged(honest, tmp_path)
