"""The user's own models by name; what bad ones meet is in test_bad_inputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from bilaw.imports import find
from bilaw.models.own import load_model

MODULE = """
import random, torch
from torch import nn

def takes_both(shape, classes): return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))
def takes_classes(classes, width=3): return nn.Linear(width, classes)
def takes_nothing(): return nn.Linear(2, 2)
def takes_anything(**given): return nn.Linear(len(given), given["classes"])
def takes_places(shape, /, classes): return nn.Linear(1, classes)
def draws(): torch.rand(100); return nn.Linear(2, 2)

class Net(nn.Linear):
    def __init__(self, classes):
        super().__init__(5, classes)

ready = nn.Linear(7, 7)
"""


@pytest.fixture(autouse=True)
def own_nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "own_nets.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("own_nets", None)


@pytest.mark.parametrize(
    ("function", "weight"),
    [
        ("takes_both", (4, 12)),
        ("takes_classes", (4, 3)),
        ("takes_nothing", (2, 2)),
        ("takes_anything", (4, 2)),
        ("Net", (4, 5)),
        ("ready", (7, 7)),
    ],
)
def test_a_function_gets_what_it_takes(function: str, weight: tuple[int, int]) -> None:
    model = load_model(f"own_nets:{function}", (3, 2, 2), 4, seed=0)
    assert tuple(next(model.parameters()).shape) == weight


def test_arguments_that_cannot_be_named_are_refused() -> None:
    with pytest.raises(ValueError, match="not shape"):
        load_model("own_nets:takes_places", (1, 1, 1), 4, seed=0)


def test_weights_come_from_the_seed_alone_and_the_callers_random_state_stays() -> None:
    def weights(seed: int) -> torch.Tensor:
        return load_model("own_nets:takes_nothing", (1, 1, 1), 2, seed).get_parameter("weight")

    before = torch.get_rng_state()
    one, again, other = weights(1), weights(1), weights(2)
    load_model("own_nets:draws", (1, 1, 1), 2, seed=0)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_that_is_ready_is_drawn_from_the_seed_when_its_module_is_read() -> None:
    def weights(noise: int) -> torch.Tensor:
        sys.modules.pop("own_nets", None)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(noise)
            return load_model("own_nets:ready", (1, 1, 1), 7, seed=0).get_parameter("weight")

    assert torch.equal(weights(1), weights(2))


def test_modules_of_the_current_folder_are_found_and_the_path_is_left_alone() -> None:
    before = list(sys.path)
    assert isinstance(find("model.name", "own_nets:ready"), nn.Module)
    assert sys.path == before


@pytest.mark.parametrize("name", ["", ":", "mod:", ":function", ".mod:function", "math"])
def test_a_name_that_is_no_module_and_function_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="module:function, such as mynets:resnet"):
        find("model.name", name)


def test_a_builtin_that_tells_nothing_of_its_arguments_is_called_without() -> None:
    with pytest.raises(ValueError, match=r"returns a torch\.nn\.Module, not a dict"):
        load_model("builtins:dict", (1, 1, 1), 2, seed=0)
