"""Tiny-CNN: two strided convolutions, for the grey data sets."""

from __future__ import annotations

from torch import nn

from bilaw.models.arguments import Shape, class_count, image_shape


def tiny_cnn(shape: Shape, classes: int) -> nn.Sequential:
    """Return conv 16, ReLU, conv 32, ReLU, FC 100, ReLU, FC k; both convolutions 4x4, stride 2, padding 1.

    >>> sum(p.numel() for p in tiny_cnn((1, 28, 28), 10).parameters())
    166406
    """
    channels, height, width = image_shape(shape, side=4)
    return nn.Sequential(
        nn.Conv2d(channels, 16, kernel_size=4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=4, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), 100),  # each convolution halves, rounding down
        nn.ReLU(),
        nn.Linear(100, class_count(classes)),
    )
