"""The command line, interrupted, and on disks that are full or not to be written to."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from training_kit import differing, left_behind

from bilaw import sealed
from bilaw.runs import Run
from bilaw.training import checkpoint

QUICK = ["train", "--method", "bilaw", "--select.steps", "1", "--optim.epochs", "4"]
QUICK += ["--optim.batch", "64", "--model.name", "fc1", "--log.checkpoint_steps", "5", "--compute.threads", "1"]
SLOW = [*QUICK, "--attack.steps", "1000000"]  # its first step never ends
QUICK += ["--attack.steps", "1"]


@pytest.fixture(scope="module")
def whole(zygote, tmp_path_factory):
    run = tmp_path_factory.mktemp("whole") / "run"
    assert zygote.ask("cli", argv=[*QUICK, "--run", str(run)]) == 0, zygote.said()
    return left_behind(run)


def start(argv, run):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "bilaw.cli", *argv, "--run", str(run)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for(true, what):
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError(f"no {what} within 30 s")


def checkpoints(run):
    return sorted((run / "checkpoints").glob("[0-9]*.safetensors"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_step_saves_and_says_how_to_go_on(zygote, whole, tmp_path, number):
    run = tmp_path / "a run"
    process = start(QUICK, run)
    wait_for(lambda: (run / "metrics.jsonl").exists() and '"robust"' in (run / "metrics.jsonl").read_text(), "epoch")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, out + err
    assert "stopping after this step" in err
    assert "interrupted in epoch" in err
    assert f"  bilaw train --resume '{run}'" in err.splitlines()
    assert "Traceback" not in err
    assert Run(run).status().state == "interrupted"
    kept = sealed.read(checkpoints(run)[-1])
    assert 0 < kept.facts["standing"]["t"] < 4 * (len(Run(run).splits()["train"]) // 64)
    assert zygote.ask("cli", argv=["train", "--resume", str(run)]) == 0, zygote.said()
    assert differing(whole, left_behind(run)) == []


def test_a_second_interrupt_stops_at_once(tmp_path):
    run = tmp_path / "run"
    process = start(SLOW, run)
    wait_for(lambda: checkpoints(run), "checkpoint")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().strip() == ""
    assert "Ctrl-C again stops at once" in process.stderr.readline()
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert time.monotonic() - began < 5
    assert "Traceback" not in err
    assert "--resume" in err
    assert sealed.read(checkpoints(run)[-1]).facts["standing"]["t"] == 0
    assert Run(run).status().state == "interrupted"


@pytest.mark.parametrize("trouble", ["too large", "not to be written to"])
def test_trouble_with_the_disk_ends_clearly_and_the_run_goes_on_later(zygote, whole, tmp_path, trouble):
    run = tmp_path / "run"
    zygote.log.unlink(missing_ok=True)
    assert zygote.ask("cli", [trouble, "", 3], argv=[*QUICK, "--run", str(run)]) == 1, zygote.said()
    lines = [line for line in zygote.said().splitlines() if line.startswith("bilaw: ")]
    assert len(lines) == 1, zygote.said()
    assert str(run) in lines[0]
    assert {"too large": "File too large", "not to be written to": "Permission denied"}[trouble] in lines[0]
    assert "Traceback" not in zygote.said()
    for folder in (run, Run(run).checkpoints):
        folder.chmod(0o700)
    assert checkpoint.newest(Run(run).checkpoints, pytest.fail) is not None
    assert zygote.ask("cli", argv=["train", "--resume", str(run)]) == 0, zygote.said()
    assert differing(whole, left_behind(run)) == []


def mount(*words):
    return subprocess.run(["mount", *words], capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if not sys.platform.startswith("linux") or not mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)):
        pytest.skip("takes the right to mount a file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("room", [0.3, 0.9, 1.7])
def test_a_full_disk(zygote, whole, small_disk, room):
    """It fills up at the very first checkpoint, or at one of the next."""
    run, size = small_disk / "run", 1_000_000
    zygote.log.unlink(missing_ok=True)
    assert mount("-o", f"remount,size={int(room * size)}", str(small_disk))
    assert zygote.ask("cli", argv=[*QUICK, "--run", str(run)]) == 1, zygote.said()
    said = zygote.said()
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if "No space left on device" in line and "cannot write" in line], said
    assert mount("-o", "remount,size=50m", str(small_disk))
    assert Run(run).status().state in ("failed", "killed")  # a full disk may take no status either
    assert not list(run.rglob("*.part"))
    assert zygote.ask("cli", argv=["train", "--resume", str(run)]) == 0, zygote.said()
    assert differing(whole, left_behind(run)) == []


def test_a_folder_that_cannot_be_made(zygote, tmp_path):
    (tmp_path / "file").write_text("")
    assert zygote.ask("cli", argv=[*QUICK, "--run", str(tmp_path / "file" / "run")]) == 2
    assert Path(tmp_path / "file").read_text() == ""
