"""Small-CNN: six convolutions with BatchNorm, GAIRAT's network of that name (TRADES' is another)."""

from __future__ import annotations

from torch import nn

from bilaw.models.arguments import Shape, class_count, image_shape


def small_cnn(shape: Shape, classes: int) -> nn.Sequential:
    """Return three blocks of 64, 128 and 196 channels, then FC 256, ReLU, FC k.

    >>> sum(p.numel() for p in small_cnn((3, 32, 32), 10).parameters())
    1639282
    """
    channels, height, width = image_shape(shape, side=8)
    return nn.Sequential(
        block(channels, 64),
        block(64, 128),
        block(128, 196),
        nn.Flatten(),
        nn.Linear(196 * (height // 8) * (width // 8), 256),  # each block halves, rounding down
        nn.ReLU(),
        nn.Linear(256, class_count(classes)),
    )


def block(before: int, after: int) -> nn.Sequential:
    """Return [conv 3x3, BN, ReLU] twice, then a 2x2 max-pool."""
    return nn.Sequential(
        # BatchNorm makes the convolutions' biases redundant; they stay because the paper's net counts them.
        nn.Conv2d(before, after, kernel_size=3, padding=1),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.Conv2d(after, after, kernel_size=3, padding=1),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
