"""`bilaw evaluate`: runs, weights and the user's models measured; what it refuses, and what it leaves behind."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bilaw.cli import main
from bilaw.commands import evaluate as command
from bilaw.config import Config
from bilaw.evaluation.store import read_result
from bilaw.models import build
from bilaw.recipes.methods import method
from bilaw.runs import Run
from bilaw.settings import override
from bilaw.training.fit import fit

FEW = ["--samples", "40", "--audit", "0"]
CHEAP = ["--attacks", "pgd-2,fgsm", *FEW]
MODULE = """
import torch
from torch import nn
from bilaw.models import build

def net(shape, classes):
    return build("fc1", shape, classes, seed=1)

class Blind(nn.Module):
    def forward(self, x):
        return torch.zeros(len(x), 10)

blind = lambda: Blind()
number = 3
"""
QUICK = {
    "optim.epochs": "1",
    "optim.batch": "256",
    "attack.steps": "1",
    "select.steps": "1",
    "model.name": "fc1",
    "log.to": "none",
    "attack.eps": "0.05",
}


@pytest.fixture(scope="module")
def den(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("evaluated")
    for name, kind, seed in (("at-0", "at", 0), ("at-1", "at", 1), ("bilaw", "bilaw", 0)):
        config = method(kind, override(Config(), {**QUICK, "seed": str(seed)}))
        fit("fc1", "digits", config, run=here / "runs" / name)
    shutil.copytree(here / "runs" / "at-0", here / "runs" / "young")
    (here / "runs" / "young" / "best.safetensors").unlink()
    shutil.copy(here / "runs" / "at-0" / "best.safetensors", here / "weights.safetensors")
    tiny = build("tiny-cnn", (1, 8, 8), 10, seed=0).state_dict()
    save_file({name: value.clone() for name, value in tiny.items()}, here / "tiny.safetensors")
    (here / "my_evaluated.py").write_text(MODULE)
    (here / "folder").mkdir()
    return here


@pytest.fixture
def inside(den: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copytree(den, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("COLUMNS", "200")
    yield tmp_path / "here"
    sys.modules.pop("my_evaluated", None)


def result(folder: str) -> dict[str, Any]:
    found = read_result(folder)
    assert found is not None
    return found


def test_a_run_is_measured_in_its_own_ball_and_folder(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "at-0", *CHEAP]) == 0
    out = capsys.readouterr().out.splitlines()
    held = result("runs/at-0/evaluation")
    assert held["threat"] == {"norm": "linf", "eps": 0.05}
    assert (held["model"]["name"], held["model"]["method"], held["model"]["seed"]) == ("at-0", "at", 0)
    assert (held["data"]["name"], held["data"]["half"], held["data"]["samples"]) == ("digits", "test", 40)
    for score in held["scores"]:
        assert f"{score['attack']}: {score['accuracy']:.2%} of 40" in out
    assert out[-1] == "in runs/at-0/evaluation: result.json, card.md, verdicts.safetensors"
    assert "audit: none (--audit 0): nothing vouches for these numbers" in out


def test_a_second_call_says_unchanged_and_changes_nothing(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "runs/at-0", *CHEAP]) == 0
    first = capsys.readouterr().out.splitlines()
    before = contents(inside)
    assert main(["evaluate", "runs/at-0", *CHEAP]) == 0
    second = capsys.readouterr().out.splitlines()
    assert second[-1] == "unchanged in runs/at-0/evaluation: result.json, card.md, verdicts.safetensors"
    assert second[:-1] == first[-len(second) : -1]
    assert {name: held for name, held in contents(inside).items() if held} == {n: h for n, h in before.items() if h}


def test_weights_in_a_file_are_those_of_the_run(inside: Path) -> None:
    asked = ["evaluate", "weights.safetensors", "--model", "fc1", "--data", "digits", "--eps", "0.05", *CHEAP]
    assert main(asked) == 0
    assert main(["evaluate", "at-0", *CHEAP]) == 0
    mine, runs = result("evaluations/weights-linf-0.05"), result("runs/at-0/evaluation")
    assert mine["scores"] == runs["scores"]
    assert mine["model"]["digest"] == runs["model"]["digest"]
    held = load_file("runs/at-0/evaluation/verdicts.safetensors")
    for name, value in load_file("evaluations/weights-linf-0.05/verdicts.safetensors").items():
        assert torch.equal(value, held[name])


def test_a_model_of_the_users_own_is_measured(inside: Path) -> None:
    asked = ["evaluate", "my_evaluated:net", "--data", "digits", "--eps", "8/255", "--norm", "l2", *CHEAP]
    assert main(asked) == 0
    held = result("evaluations/my-evaluated-net-l2-0.03137")
    assert held["threat"] == {"norm": "l2", "eps": 8 / 255}
    assert held["model"]["name"] == "my_evaluated:net"


def test_options_reach_the_result(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        "--attacks fgsm --samples all --audit 20 --points --seed 3 --batch 100 --device cpu --threads 1 "
        "--precision bf16 --out here"
    )
    assert main(["evaluate", "at-0", *options.split()]) == 0
    held = result("here")
    assert held["settings"] == {
        "eps": 0.05,
        "norm": "linf",
        "attacks": ["clean", "fgsm"],
        "samples": None,
        "seed": 3,
        "batch": 100,
        "audit": 20,
        "points": True,
        "precision": "bf16",
    }
    assert held["data"]["samples"] == 450
    assert len(held["audit"]) == 15
    assert Path("here/points.safetensors").exists()
    assert "checks passed" in capsys.readouterr().out


def test_weight_aware_attacks_take_the_runs_own_network_or_anothers(inside: Path) -> None:
    assert main(["evaluate", "bilaw", *FEW, "--attacks", "weight-aware-2"]) == 0
    assert [score["attack"] for score in result("runs/bilaw/evaluation")["scores"]] == ["clean", "weight-aware-2"]
    name = "weight-aware-2:runs/bilaw"
    assert main(["evaluate", "at-0", *FEW, "--attacks", name]) == 0
    assert result("runs/at-0/evaluation")["scores"][1]["attack"] == name


def test_a_stopped_evaluation_says_how_to_go_on_and_does(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bilaw.evaluation import measure

    line = ["evaluate", "at-0", *CHEAP, "--batch", "20"]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["bilaw", *line])
        patch.setattr(measure, "judge", _stops)
        assert main(line) == 130
    err = capsys.readouterr().err
    again = "bilaw " + shlex.join(line)
    assert f"stopped; finished batches are in runs/at-0/evaluation. To go on: {again}" in err
    assert len(list(Path("runs/at-0/evaluation/parts").iterdir())) == 2
    assert main(line) == 0
    assert main([*line, "--out", "whole"]) == 0
    assert Path("whole/result.json").read_bytes() == Path("runs/at-0/evaluation/result.json").read_bytes()


def _stops(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_evaluated_runs_are_compared_by_method_with_their_seeds_as_one(
    inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("at-0", "at-1", "bilaw"):
        assert main(["evaluate", name, *CHEAP]) == 0
    capsys.readouterr()
    assert main(["compare", "--json", "at-0", "runs/at-1", "bilaw"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert list(held["rows"]) == ["at (2 seeds: at-0, at-1)", "bilaw"]
    assert held["rows"]["at (2 seeds: at-0, at-1)"]["clean"]["spread"]["deviation"] >= 0
    assert held["attacks"] == ["clean", "pgd-2", "fgsm"]
    assert main(["compare", "at-0", "bilaw"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in out[1:3]} == {"at-0", "bilaw"}
    assert main(["compare", "at-0", "runs/at-0"]) == 2


def test_runs_of_one_name_in_two_folders_are_two(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("runs/bilaw", "elsewhere/at-0")
    for folder in ("runs/at-0", "elsewhere/at-0"):
        assert main(["evaluate", folder, *CHEAP]) == 0
    assert main(["compare", "runs/at-0", "elsewhere/at-0"]) == 0, capsys.readouterr().err


def contents(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): None if path.is_dir() else (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
    }


OF = "--data digits --eps 0.1"
BAD = (
    ("evaluate", ("TARGET",)),
    ("evaluate at-9", ("--data = None", "the data to measure at-9 on")),
    (f"evaluate at-9 {OF}", ("TARGET = 'at-9'", "the folder of a run, a .safetensors file")),
    (f"evaluate '' {OF}", ("TARGET = ''",)),
    ("evaluate folder", ("run = 'folder'", "the folder of a run, with a config.toml in it")),
    ("evaluate young", ("TARGET = 'runs/young'", "a run with a best epoch; this one has none yet")),
    ("evaluate weights.safetensors", ("--data = None", "the data to measure weights.safetensors on")),
    (f"evaluate weights.safetensors {OF}", ("--model = None", "the model whose weights are in weights.safetensors")),
    (f"evaluate absent.safetensors --model fc1 {OF}", ("'absent.safetensors'", "a file that exists")),
    (f"evaluate tiny.safetensors --model fc1 {OF}", ("'tiny.safetensors'", "weights of this model")),
    (f"evaluate weights.safetensors --model fc2 {OF}", ("model = 'fc2'", "did you mean 'fc1'?")),
    ("evaluate weights.safetensors --model fc1 --data digits", ("--eps = None", "the radius of the ball")),
    ("evaluate my_evaluated:net --data digits", ("--eps = None", "the radius of the ball")),
    ("evaluate my_evaluated:net --data digit --eps 0.1", ("data = 'digit'", "did you mean 'digits'?")),
    (f"evaluate my_evaluated:nett {OF}", ("my_evaluated", "did you mean 'net'?")),
    (f"evaluate my_evaluated:number {OF}", ("my_evaluated:number", "not a int")),
    (f"evaluate my_evaluated:blind {OF}", ("model = 'without gradients'", "only clean and square need none")),
    ("evaluate at-0 --eps much", ("--eps = 'much'", "a finite number, or a fraction such as 8/255")),
    ("evaluate at-0 --eps 1/0", ("--eps = '1/0'", "a finite number, or a fraction such as 8/255")),
    ("evaluate at-0 --eps=-0.1", ("eps = -0.1", "a finite number >= 0")),
    ("evaluate at-0 --eps nan", ("--eps = 'nan'",)),
    ("evaluate at-0 --norm l3", ("norm = 'l3'", "one of l2, linf")),
    ("evaluate at-0 --samples 0", ("samples = 0", "a whole number >= 1")),
    ("evaluate at-0 --samples many", ("--samples = 'many'", "a whole number")),
    ("evaluate at-0 --audit x", ("--audit = 'x'", "a whole number")),
    ("evaluate at-0 --batch 0 --attacks clean --audit 0", ("batch = 0", "a whole number >= 1")),
    ("evaluate at-0 --seed 9223372036854775808", ("seed = 9223372036854775808", "2**63 - 1")),
    ("evaluate at-0 --device gpu", ("compute.device = 'gpu'", "a device of this machine")),
    ("evaluate at-0 --attacks autoatack", ("attacks = 'autoatack'", "did you mean 'autoattack'?")),
    ("evaluate at-0 --attacks pgd-20,pgd-20", ("each name once",)),
    ("evaluate at-0 --attacks weight-aware-2", ("weight-aware", "trained without one", "weight-aware-20:RUN")),
    ("evaluate at-0 --attacks weight-aware-2:runs/at-1", ("a run that has learned one",)),
    ("evaluate at-0 --out folder/..", ("out = 'folder/..'", "a new or an empty folder")),
    ("evaluate at-0 --atacks fgsm", ("--atacks", "did you mean --attacks?")),
    ("compare", ("RUN",)),
    ("compare at-0", ("a finished evaluation", "`bilaw evaluate` makes one")),
)


@pytest.mark.parametrize(("line", "fragments"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_ends_in_one_line_and_writes_nothing(
    line: str, fragments: tuple[str, ...], inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(inside)
    assert main(shlex.split(line)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("bilaw: ")
    assert [part for part in fragments if part not in err] == [], err
    assert contents(inside) == before


def test_other_settings_in_the_same_folder_are_refused(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "at-0", *CHEAP]) == 0
    before = contents(inside)
    samples, attacks = ["--samples", "40"], ["--attacks", "pgd-2,fgsm"]
    for changed in (
        [*samples, *attacks, "--eps", "0.2"],
        ["--samples", "30", *attacks],
        [*samples, "--attacks", "fgsm"],
    ):
        capsys.readouterr()
        assert main(["evaluate", "at-0", "--audit", "0", *changed]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert "it began with" in err
        assert "--out" in err
        assert contents(inside) == {**before, **{key: None for key, held in contents(inside).items() if held is None}}


def test_where_the_evaluation_goes_is_told_before_it_begins() -> None:
    assert command.folder_name("a:b/c d", replace(command.Plan(8 / 255), norm="l2")) == Path(
        "evaluations/a-b-c-d-l2-0.03137"
    )
    assert command.folder_name("...", command.Plan(0.1)) == Path("evaluations/model-linf-0.1")
    assert Run("runs/x").evaluation == Path("runs/x/evaluation")
