"""What the door says of models that may pass; what it refuses is in test_bad_inputs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bilaw.models.door import check_model
from bilaw.net import Net

X = torch.rand(8, 1, 4, 4, generator=torch.Generator().manual_seed(0))


class Scaled(nn.Module):
    def __init__(self, factor: float, *layers: nn.Module) -> None:
        super().__init__()
        self.factor, self.layers = factor, nn.Sequential(nn.Flatten(), *layers, nn.Linear(16, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.layers(x)
        return self.factor * z


@pytest.mark.parametrize(
    ("model", "notes"),
    [
        (Scaled(1), []),
        (Scaled(1, nn.BatchNorm1d(16)), ["the model has BatchNorm"]),
        (Scaled(1, nn.Dropout(0.5)), ["the model has dropout"]),
        (Scaled(1, nn.Dropout(0)), []),
        (Scaled(1e6), ["logits reach"]),
        (Scaled(0), ["logits are the same for every image"]),
    ],
)
def test_what_is_worth_knowing_is_said(model: nn.Module, notes: list[str]) -> None:
    found = check_model(Net(model), X, 3)
    assert len(found) == len(notes)
    assert all(text.startswith(start) for text, start in zip(found, notes, strict=True))


def test_a_forward_that_is_random_in_eval_mode_is_noted_and_leaves_the_generator() -> None:
    class Noisy(Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + torch.randn(3)

    model = Noisy(1)
    state = torch.get_rng_state()
    (note,) = check_model(Net(model), X, 3)
    assert "will not repeat to the same bits" in note
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(training: bool) -> None:
    model = Scaled(1, nn.BatchNorm1d(16), nn.Dropout(0.5)).train(training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    check_model(Net(model), X, 3)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(part.training is training for part in model.modules())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_that_works_in_one_mode_only_is_refused() -> None:
    class Half(Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert self.training
            return super().forward(x)

    with pytest.raises(ValueError, match=r"model = 'Half' is not accepted.*AssertionError"):
        check_model(Net(Half(1)), X, 3)


def test_a_value_error_of_the_models_own_says_that_it_is_the_models() -> None:
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm2d(16))
    with pytest.raises(ValueError, match=r"maps images \(8, 1, 4, 4\) to logits \(ValueError: expected 4D input"):
        check_model(Net(model), X, 16)


def test_probabilities_are_told_from_logits_that_happen_to_lie_in_0_1() -> None:
    class Bounded(Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).sigmoid()

    assert check_model(Net(Bounded(1)), X, 3) == []
