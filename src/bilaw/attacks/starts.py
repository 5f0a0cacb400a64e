"""Where an attack starts inside its ball."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from bilaw.attacks.norms import Ball


def uniform(ball: Ball, x: Tensor, generator: Generator | None) -> Tensor:
    """Start anywhere in the ball (Madry et al. 2018)."""
    return ball.draw(generator)


def gaussian(ball: Ball, x: Tensor, generator: Generator | None) -> Tensor:
    """Start at x + 0.001 N(0, 1): at x itself the KL of TRADES has no gradient."""
    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
    return ball.project(x + 0.001 * noise)


def zero(ball: Ball, x: Tensor, generator: Generator | None) -> Tensor:
    """Start at x itself (FGSM)."""
    return ball.project(x)


Start = Callable[[Ball, Tensor, Generator | None], Tensor]
STARTS: dict[str, Start] = {"uniform": uniform, "gaussian": gaussian, "zero": zero}
