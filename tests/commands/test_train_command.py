"""`bilaw train`: where a run goes, what repeats it, and how it ends when stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bilaw.cli import main
from bilaw.commands.train import effective, new_folder, run_name, stopping
from bilaw.config import Config, DataConfig, ModelConfig
from bilaw.runs import Run
from bilaw.settings import parse_file, values_of

QUICK = ["--model.name", "fc1", "--method", "plain", "--optim.batch", "512", "--optim.epochs", "1", "--log.to", "none"]


def quick(*instead: str) -> list[str]:
    given = dict(zip(QUICK[::2], QUICK[1::2], strict=True)) | dict(zip(instead[::2], instead[1::2], strict=True))
    return [word for pair in given.items() for word in pair]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_says_where_it_is_and_its_config_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *QUICK, "--attack.eps", "8/255"]) == 0
    out = capsys.readouterr().out
    first = Run("runs/digits-fc1-plain-1")
    assert "run folder  runs/digits-fc1-plain-1" in out
    config, chosen = effective(first.config_file, None, {})
    assert config == first.config()
    assert config.attack.eps == 8 / 255
    assert set(parse_file(first.config_file)) == set(values_of(config))  # every setting is stated
    assert chosen[:1] == ["model.name"]
    assert main(["train", "--config", str(first.config_file)]) == 0
    again = Run("runs/digits-fc1-plain-2")
    assert again.config_file.read_bytes() == first.config_file.read_bytes()
    held, got = load_file(first.best), load_file(again.best)
    assert all(torch.equal(got[name], value) for name, value in held.items())
    assert (again.path / "metrics.jsonl").read_bytes() == (first.path / "metrics.jsonl").read_bytes()


def test_runs_that_start_together_get_a_folder_each() -> None:
    def start(_: int) -> str:
        with new_folder(None, Config()) as folder:
            (folder / "something").touch()
        return folder.name

    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(start, range(16)))
    assert sorted(names) == sorted(f"digits-tiny-cnn-at-{i}" for i in range(1, 17))


def test_a_folder_that_was_not_used_is_taken_back(here: Path) -> None:
    with new_folder(None, Config()) as folder:
        assert folder.is_dir()
    assert list(here.iterdir()) == []


def test_a_folder_the_user_names_is_not_made_before_the_run_is(here: Path) -> None:
    with new_folder("deep/er", Config()) as folder:
        assert folder == Path("deep/er")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "model", "name"),
    [
        ("digits", "wrn-34-10", "digits-wrn-34-10-at"),
        ("/somewhere/my data.npz", "mynets:resnet", "my-data-mynets-resnet-at"),
        ("../..", "a:b", "run-a-b-at"),
        (f"{'a' * 250}.npz", "b", f"{'a' * 40}-b-at"),
        ("mine.v2:make", "é:f", "mine-é-f-at"),
    ],
)
def test_a_run_is_named_after_its_parts(data: str, model: str, name: str) -> None:
    assert run_name(Config(data=DataConfig(data), model=ModelConfig(model))) == name


def test_the_first_signal_is_noted_and_the_second_stops(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with stopping() as caught:
        os.kill(os.getpid(), signal.SIGTERM)
        assert caught == [signal.SIGTERM]
        assert "stopping after this step" in capfd.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupted_run_says_how_to_go_on_and_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bilaw.training.loop import Loop

    steps, step = [], Loop._step

    def counted(self: Loop, *arguments: Any) -> None:
        step(self, *arguments)
        steps.append(1)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Loop, "_step", counted)
    assert main(["train", *QUICK, "--run", "my runs/a b"]) == 130
    err = capsys.readouterr().err
    assert "interrupted in epoch 1 of 1, and saved" in err
    assert "bilaw train --resume 'my runs/a b'" in err
    assert main(["train", "--resume", "my runs/a b", "--print-config"]) == 0
    assert capsys.readouterr().out == Run("my runs/a b").config_file.read_text()
    assert main(["train", "--resume", "my runs/a b"]) == 0
    assert Run("my runs/a b").status().state == "finished"


LATE = """
import torch

calls = 0

def fail(of, after=40):
    global calls
    calls += 1
    if calls > after:
        raise of

class Net(torch.nn.Module):
    def __init__(self, error):
        super().__init__()
        self.layer, self.error = torch.nn.Linear(64, 10), error
    def forward(self, x):
        fail(self.error)
        return self.layer(x.flatten(1))

class Data:
    def __len__(self):
        return 60
    def __getitem__(self, place):
        fail(KeyError("late"), after=300)
        return torch.rand(1, 8, 8), place % 10

value_error = lambda: Net(ValueError("late"))
file_error = lambda: Net(FileNotFoundError(2, "late", "somewhere"))
memory_error = lambda: Net(RuntimeError("DefaultCPUAllocator: can't allocate memory: late"))
"""


@pytest.fixture
def late(here: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (here / "late.py").write_text(LATE)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    sys.modules.pop("late", None)


@pytest.mark.parametrize(("name", "error"), [("value_error", ValueError), ("file_error", FileNotFoundError)])
@pytest.mark.usefixtures("late")
def test_a_late_error_of_the_users_model_keeps_its_traceback(name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="late") as caught:
        main(["train", *quick("--optim.batch", "32", "--model.name", f"late:{name}")])
    assert "late.py" in str(caught.traceback[-1].path)
    assert Run("runs/digits-late-value_error-plain-1".replace("value_error", name)).status().state == "failed"


@pytest.mark.usefixtures("late")
def test_a_late_error_of_the_users_data_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bilaw.datasets.mapped.LOOKS", 4)
    with pytest.raises(RuntimeError, match=r"in epoch \d, step 1: .*'late', at .*late\.py:10\)") as caught:
        main(["train", *quick("--data.name", "late:Data", "--data.select", "10", "--optim.epochs", "9")])
    assert not isinstance(caught.value, ValueError)


@pytest.mark.usefixtures("late")
def test_no_room_in_the_hosts_memory_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *quick("--optim.batch", "32", "--model.name", "late:memory_error")]) == 1
    assert "can't allocate memory: late Lower optim.batch" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_the_command_in_one_line() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "bilaw.cli", "train", "--print-config"]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, "bilaw: nobody reads the output any more\n")
