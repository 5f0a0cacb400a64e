"""FC1: the paper's network with one hidden layer."""

from __future__ import annotations

from torch import nn

from bilaw.models.arguments import Shape, class_count, image_shape


def fc1(shape: Shape, classes: int) -> nn.Sequential:
    """Return FC 1024, ReLU, FC k: images (B, *shape) in, logits (B, k) out.

    >>> sum(p.numel() for p in fc1((1, 28, 28), 10).parameters())
    814090
    """
    channels, height, width = image_shape(shape)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * width, 1024),
        nn.ReLU(),
        nn.Linear(1024, class_count(classes)),
    )
