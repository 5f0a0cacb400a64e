"""Classifiers by name. Any other `nn.Module` from images to logits serves as well."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import nn

from bilaw.errors import nearest, refuse
from bilaw.models.arguments import Shape, is_whole
from bilaw.models.fc1 import fc1
from bilaw.models.normalize import Normalize, normalized
from bilaw.models.small_cnn import small_cnn
from bilaw.models.tiny_cnn import tiny_cnn
from bilaw.models.wide_resnet import DEPTHS, is_depth, wide_resnet

__all__ = ["MODELS", "Normalize", "build", "fc1", "normalized", "small_cnn", "tiny_cnn", "wide_resnet"]

Builder = Callable[[Shape, int], nn.Module]

MODELS: dict[str, Builder] = {
    "fc1": fc1,
    "tiny-cnn": tiny_cnn,
    "small-cnn": small_cnn,
    "wrn-32-10": wide_resnet,
}


def build(name: str, shape: Shape, classes: int, seed: int | None = None) -> nn.Module:
    """Return the named model, or any "wrn-D-K", for images of `shape` (channels, height, width).

    With a `seed` the weights are a function of it alone: they are drawn on the CPU whatever the default
    device, and the caller's random state stays as it was.

    >>> build("fc1", (1, 8, 8), 10, seed=0)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    builder = find(name)
    if seed is None:
        return builder(shape, classes)
    if not is_whole(seed, 0) or seed >= 2**64:
        refuse("seed", seed, "None or a whole number from 0 to 2**64 - 1")
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed every GPU as well
        return builder(shape, classes)


def find(name: str) -> Builder:
    """Return the builder of that name, out of the table or by the pattern wrn-depth-width."""
    if isinstance(name, str) and name in MODELS:
        return MODELS[name]
    if isinstance(name, str) and (wrn := re.fullmatch("wrn-([0-9]{1,9})-([0-9]{1,9})", name)):
        depth, width = map(int, wrn.groups())
        if not is_depth(depth) or not width:
            refuse("model", name, f"wrn-D-K with depth D = {DEPTHS} and width K >= 1")
        return lambda shape, classes: wide_resnet(shape, classes, depth, width)
    known = ", ".join(sorted(MODELS))
    return refuse("model", name, f"one of {known}, or any wrn-D-K (depth, width){nearest(str(name), MODELS)}")
