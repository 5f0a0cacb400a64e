"""Runs killed with SIGKILL wherever it hurts, and resumed, equal the uninterrupted one to the bit."""

import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from safetensors.torch import load_file
from training_kit import BILAW, bits, differing, left_behind

from bilaw.runs import Run

KILLED = -signal.SIGKILL
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="takes fork and SIGKILL")

TARGETED = [
    ("rename", "", 1),  # before the folder is there
    ("write", "checkpoints/.", 1),  # in the middle of the very first checkpoint
    ("replace", "checkpoints/", 1),  # between its fsync and its rename
    ("checkpoint", "", 1),  # right after it
    ("step", "", 1),
    ("write", "checkpoints/.", 1),  # in the middle of another
    ("step", "", 4),
    ("unlink", "checkpoints/0", 1),  # between rename and dropping the oldest
    ("half a step", "", 2),  # theta has moved, its average has not
    ("append", "weights.f16", 1),  # half a row
    ("append", "metrics.jsonl", 1),  # half a line
    ("epoch", "", 1),  # all of an epoch is said, its checkpoint is not taken
    ("write", ".omega.", 1),
    ("write", ".best.", 1),
    ("best", "", 1),
    ("replace", "status.json", 2),
    ("write", "checkpoints/.", 3),
]


def random_kills(count, seed):
    drawn = random.Random(seed)
    kinds = [("step", ""), ("half a step", ""), ("write", "checkpoints/."), ("replace", "checkpoints/")]
    return [(*drawn.choice(kinds), drawn.randint(2, 6)) for _ in range(count)]


def all_of(run):
    return {**left_behind(run), **bits(load_file(f"{run}.safetensors"))}


def survive(zygote, folder, settings, kills, **more):
    """Kill a run at every one of `kills`, resume it each time, and compare what it comes to."""
    whole = folder / "whole"
    assert zygote.fit(whole, settings, **more) == 0, zygote.said()
    expected, number = all_of(whole), 0
    for kill in kills:
        for _ in range(2):  # a run that ends before it is hit gives way to a new one
            run = folder / f"killed-{number}"
            if (status := zygote.fit(run, settings, kill, **more)) == KILLED:
                break
            assert status == 0, zygote.said()
            assert differing(expected, all_of(run)) == []
            number += 1
        assert status == KILLED, kill
        if run.exists():
            Run(run).metrics(), Run(run).weights()  # readers live with what a kill leaves
            assert Run(run).status().state == "killed"
    while zygote.fit(run := folder / f"killed-{number}", settings, **more) != 0:
        raise AssertionError(zygote.said())
    assert differing(expected, all_of(run)) == []
    assert not list(run.rglob("*.part"))
    assert len(list(Run(run).checkpoints.iterdir())) == 2
    return run


def test_bilaw_survives_more_than_twenty_kills_to_the_bit(zygote, tmp_path):
    kills = TARGETED + random_kills(6, seed=0)
    assert len(kills) >= 20
    survive(zygote, tmp_path, BILAW, kills)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_bilaw_survives_a_hundred_more(zygote, tmp_path, seed):
    kills = random_kills(25, seed=1 + seed)
    settings = {**BILAW, "optim.epochs": 6, "log.to": "tensorboard", "meta.every": 2, "seed": seed}
    survive(zygote, tmp_path, settings, kills)


def test_trades_on_a_streamed_data_set(zygote, tmp_path):
    settings = {"loss.name": "trades", "optim.epochs": 2, "log.checkpoint_steps": 2, "log.to": "tensorboard"}
    survive(zygote, tmp_path, settings, [("step", "", 5), ("write", "checkpoints/.", 2), ("epoch", "", 1)], data="lazy")


# PGD accuracy on select collapses after the second epoch, while F-FGSM's rises.
COLLAPSE = [[0.3, 0.5, 0.45, 0.1, 0.1, 0.1], [0.4, 0.6, 0.7, 0.9, 0.9, 0.9]]
OVERFITTED = {"scheme.name": "learned", "attack.name": "f-fgsm", "optim.epochs": 5, "log.checkpoint_steps": 3}


def test_a_roll_back_survives_kills_around_it(zygote, tmp_path):
    kills = [
        ("keep_good", "", 2),
        ("write", ".good.", 1),
        ("step", "", 9),
        ("back_to", "", 1),
        ("append", "metrics.jsonl", 1),
        ("step", "", 6),
        ("back_to", "", 1),
        ("write", "checkpoints/.", 1),
        ("step", "", 1),
        ("step", "", 3),
    ]
    run = Run(survive(zygote, tmp_path, OVERFITTED, kills, judge=COLLAPSE))
    assert [line["epoch"] for line in run.epochs()] == [0, 1, 2, 3, 4]
    assert sum("back_to" in line for line in run.metrics()) == 1
    assert run.weights()[1] == [0, 1, 2, 3, 4]


def _flip(path):
    held = bytearray(path.read_bytes())
    held[-5] ^= 16
    path.write_bytes(held)


DAMAGE = {
    "flipped": _flip,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.fixture(scope="module")
def stopped(zygote, tmp_path_factory):
    """An uninterrupted run, and one killed with two checkpoints taken."""
    folder = tmp_path_factory.mktemp("stopped")
    assert zygote.fit(folder / "whole", BILAW) == 0
    assert zygote.fit(folder / "killed", BILAW, ("step", "", 11)) == KILLED
    return folder


def copied(stopped, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(stopped / "killed", run)
    return run, sorted(Run(run).checkpoints.iterdir())


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(zygote, stopped, tmp_path, damage):
    run, (_, newest) = copied(stopped, tmp_path)
    DAMAGE[damage](newest)
    # Killed once more right after the next checkpoint: the damaged one must not have taken the good one's place.
    assert zygote.fit(run, BILAW, ("checkpoint", "", 1)) == KILLED
    intact = sorted(Run(run).checkpoints.glob("[0-9]*.safetensors"))
    assert len(intact) == 2
    DAMAGE[damage](intact[-1])
    assert zygote.fit(run, BILAW) == 0, zygote.said()
    told = Path(f"{run}.notes").read_text()
    assert newest.name in told
    assert "falling back" in told
    assert differing(all_of(stopped / "whole"), all_of(run)) == []


def test_without_an_intact_checkpoint_nothing_is_touched(zygote, stopped, tmp_path):
    run, held = copied(stopped, tmp_path)
    for path in held:
        _flip(path)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert zygote.fit(run, BILAW) == 3
    assert f"no checkpoint in {Run(run).checkpoints} is intact" in zygote.said()
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_run_that_is_at_work_is_not_resumed(stopped, tmp_path):
    run, _ = copied(stopped, tmp_path)
    lock = Run(run).hold()
    with pytest.raises(ValueError, match="nobody is at work on; process"):
        Run(run).hold()
    assert Run(run).status().state == "running"
    lock.close()
    assert Run(run).status().state == "killed"
    Run(run).hold().close()


def test_the_settings_of_a_run_repeat_it(zygote, tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    quick = ["--optim.epochs", "1", "--attack.steps", "1", "--select.steps", "1", "--optim.ema", "0.9"]
    assert zygote.ask("cli", argv=["train", "--method", "bilaw", *quick, "--run", str(first)]) == 0, zygote.said()
    repeat = ["train", "--config", str(first / "config.toml"), "--run", str(again)]
    assert zygote.ask("cli", argv=repeat) == 0, zygote.said()
    assert differing(left_behind(first), left_behind(again)) == []
