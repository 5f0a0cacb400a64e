"""Weights and weight networks from files; what bad files meet is in test_bad_inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from bilaw.models import build
from bilaw.models.weights import load_weights
from bilaw.training.pretrained import load_omega
from bilaw.weighting import WeightNet

ABOUT = {"features": "multiclass-margin", "margin_from": "adversarial"}


def saved(path: Path, module: nn.Module, about: dict[str, str] | None = None) -> Path:
    save_file({name: value.contiguous().clone() for name, value in module.state_dict().items()}, path, about)
    return path


def test_weights_are_those_of_the_file_buffers_too(tmp_path: Path) -> None:
    one, two = (build("wrn-10-1", (3, 8, 8), 4, seed=seed) for seed in (0, 1))
    for buffer in one.buffers():
        buffer += 3 if buffer.dtype == torch.int64 else 0.5
    load_weights(two, saved(tmp_path / "w.safetensors", one))
    assert all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())


def test_half_precision_weights_are_taken_in_the_models_own(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    file = saved(tmp_path / "w.safetensors", nn.Linear(3, 2).half())
    load_weights(model, file)
    assert model.weight.dtype == torch.float32


@pytest.mark.parametrize("hidden", [(), (4,), (8, 4), tuple(range(2, 16))])  # beyond ten layers names sort differently
def test_a_weight_network_of_any_depth_comes_back(hidden: tuple[int, ...], tmp_path: Path) -> None:
    network = WeightNet(3, hidden)
    omega = load_omega(saved(tmp_path / "omega.safetensors", network, ABOUT), classes=3)
    x = torch.rand(5, 3)
    assert torch.equal(omega.network(x), network(x))
    assert (omega.features, omega.margin_from) == ("multiclass-margin", "adversarial")
    assert not any(p.requires_grad for p in omega.network.parameters())


def _without_bias(held: dict[str, Tensor]) -> None:
    del held["layers.0.bias"]


def _wrong_bias(held: dict[str, Tensor]) -> None:
    held["layers.0.bias"] = torch.zeros(5)


def _two_weights(held: dict[str, Tensor]) -> None:
    held["layers.2.weight"] = torch.zeros(2, 4)


def _other_name(held: dict[str, Tensor]) -> None:
    held["fc.weight"] = held.pop("layers.0.weight")


@pytest.mark.parametrize("spoil", [_without_bias, _wrong_bias, _two_weights, _other_name, dict.clear])
def test_what_is_no_weight_network_is_refused(spoil: object, tmp_path: Path) -> None:
    assert callable(spoil)
    held = {name: value.clone() for name, value in WeightNet(3, (4,)).state_dict().items()}
    spoil(held)
    save_file(held, tmp_path / "omega.safetensors", ABOUT)
    with pytest.raises(ValueError, match=r"scheme\.network = .*a weight network, as a run with scheme\.name = learned"):
        load_omega(tmp_path / "omega.safetensors", classes=3)


def test_a_weight_network_of_a_diverged_run_is_refused(tmp_path: Path) -> None:
    network = WeightNet(3, (4,))
    nn.init.constant_(next(network.parameters()), torch.nan)
    with pytest.raises(ValueError, match="without NaN"):
        load_omega(saved(tmp_path / "omega.safetensors", network, ABOUT), classes=3)


@pytest.mark.parametrize("about", [None, {"features": "colour"}, {"features": "margin", "margin_from": "above"}])
def test_a_file_that_does_not_say_what_it_reads_is_refused(about: dict[str, str] | None, tmp_path: Path) -> None:
    file = saved(tmp_path / "omega.safetensors", WeightNet(3, (4,)), about)
    with pytest.raises(ValueError, match="which features it reads"):
        load_omega(file, classes=3)
