"""Normalisation as a layer: images stay in [0, 1], so that eps means the same for every model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bilaw.errors import refuse


class Normalize(nn.Module):
    """(x - mean) / std, per channel; the statistics are saved with the weights.

    >>> Normalize([0.5], [0.25])(torch.ones(1, 1, 1, 2))
    tensor([[[[2., 2.]]]])
    """

    mean: Tensor  # (channels, 1, 1)
    std: Tensor  # (channels, 1, 1)

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        means, stds = numbers("mean", mean), numbers("std", std)
        if len(stds) != len(means) or min(stds) <= 0:
            refuse("std", std, f"a number > 0 for each of mean's {len(means)} channels")
        self.register_buffer("mean", torch.tensor(means).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(stds).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised images, of the same shape."""
        # Broadcasting would quietly turn one grey channel into three.
        if x.ndim < 3 or x.shape[-3] != len(self.mean):
            refuse("x.shape", tuple(x.shape), f"(B, {len(self.mean)}, height, width)")
        return (x - self.mean) / self.std


def normalized(model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> nn.Sequential:
    """Return `model` behind a `Normalize`: a classifier of images in [0, 1]."""
    return nn.Sequential(Normalize(mean, std), model)


def numbers(setting: str, values: Sequence[float]) -> list[float]:
    """Return `values` as floats, refusing none at all and anything that is not finite."""
    accepted = "a sequence of finite numbers, one per channel"
    try:
        floats = [float(value) for value in values]
    except (TypeError, ValueError):
        refuse(setting, values, accepted)
    if not floats or not all(map(math.isfinite, floats)):
        refuse(setting, values, accepted)
    return floats
