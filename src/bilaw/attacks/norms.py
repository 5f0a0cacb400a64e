"""The two balls: each knows how to draw from itself, climb inside itself, and come back to itself."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor


class Ball(Protocol):
    """The points within eps of x, cut to [0, 1]."""

    def __init__(self, x: Tensor, eps: float) -> None: ...

    def draw(self, generator: Generator | None) -> Tensor:
        """Return one uniform point of the ball (before the cut to [0, 1]) for every sample."""
        ...

    @staticmethod
    def anywhere(like: Tensor, generator: Generator | None) -> Tensor:
        """Return one uniform point of the unit ball around 0 for every sample."""
        ...

    def climb(self, x_adv: Tensor, gradient: Tensor, step_size: float | Tensor) -> Tensor:
        """Return x_adv moved by `step_size` along the steepest ascent of its norm, back inside."""
        ...

    def project(self, x_adv: Tensor) -> Tensor:
        """Return x_adv brought back inside."""
        ...

    @staticmethod
    def size(perturbation: Tensor) -> Tensor:
        """Return the norm of each sample's perturbation: (B,)."""
        ...


class Linf:
    """max_i |x_adv_i - x_i| <= eps."""

    def __init__(self, x: Tensor, eps: float) -> None:
        self.x, self.eps = x, eps
        # The ball and the box are both intervals: one clamp between these does for the two.
        wide = _wide(x)
        self.low, self.high = (_narrow(b, x) for b in ((wide - eps).clamp_min(0), (wide + eps).clamp_max(1)))

    def draw(self, generator: Generator | None) -> Tensor:
        """Draw each coordinate uniformly."""
        return self.project(self.x + self.anywhere(self.x, generator).mul_(self.eps))

    @staticmethod
    def anywhere(like: Tensor, generator: Generator | None) -> Tensor:
        """Draw from (-1, 1)."""
        return _uniform(like, generator).mul_(2).sub_(1)

    def climb(self, x_adv: Tensor, gradient: Tensor, step_size: float | Tensor) -> Tensor:
        """Move every coordinate by the sign of its derivative."""
        return gradient.sign().mul_(step_size).add_(x_adv).clamp_(self.low, self.high)

    def project(self, x_adv: Tensor) -> Tensor:
        """Clamp."""
        return torch.clamp(x_adv, self.low, self.high)

    @staticmethod
    def size(perturbation: Tensor) -> Tensor:
        """Return the largest coordinate."""
        return perturbation.flatten(1).abs().amax(dim=1)


class L2:
    """||x_adv - x||_2 <= eps."""

    def __init__(self, x: Tensor, eps: float) -> None:
        self.x, self.eps = x, eps

    def draw(self, generator: Generator | None) -> Tensor:
        """Draw from the whole ball."""
        return self.project(self.x + self.eps * self.anywhere(self.x, generator))

    @staticmethod
    def anywhere(like: Tensor, generator: Generator | None) -> Tensor:
        """Draw a direction uniformly and a radius with density r^(d-1)."""
        direction = _unit(torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device))
        per_sample = like[(slice(None),) + (slice(0, 1),) * (like.ndim - 1)]
        return direction * torch.pow(_uniform(per_sample, generator), 1 / like[0].numel())

    def climb(self, x_adv: Tensor, gradient: Tensor, step_size: float | Tensor) -> Tensor:
        """Move along the normalised gradient."""
        return self.project(_unit(gradient).mul_(step_size).add_(x_adv))

    def project(self, x_adv: Tensor) -> Tensor:
        """Shorten to eps, then clip; x itself lies in the box, so clipping shortens further still."""
        x = _wide(self.x)
        perturbation = x_adv - x
        shrink = (self.eps / _length(perturbation).clamp_min(_tiny(x))).clamp_max(1)
        inside = (x + shrink * perturbation).clamp(0, 1)
        if x is self.x:
            return inside
        nearest = inside.to(x_adv.dtype)
        return torch.where(_length(nearest - x) > self.eps, _narrow(inside, self.x), nearest)

    @staticmethod
    def size(perturbation: Tensor) -> Tensor:
        """Return the Euclidean length."""
        length: Tensor = torch.linalg.vector_norm(perturbation.flatten(1), dim=1)
        return length


NORMS: dict[str, type[Ball]] = {"linf": Linf, "l2": L2}


def _wide(x: Tensor) -> Tensor:
    """Return half precision as float32, anything else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _narrow(value: Tensor, x: Tensor) -> Tensor:
    """Return `value`, in [0, 1], in the precision of `x`: rounded towards x, for to the nearest may leave the ball."""
    if value.dtype == x.dtype:
        return value
    rounded, wide = value.to(x.dtype).abs(), x.to(value.dtype)  # abs: of -0 the next number is not above 0
    away = (rounded - wide).abs() > (value - wide).abs()
    # Numbers >= 0 are in the order of their bits: the next one towards x is one bit pattern away.
    step = torch.where(away, (wide - rounded).sign(), 0).to(torch.int16)
    return (rounded.view(torch.int16) + step).view(x.dtype)


def _uniform(like: Tensor, generator: Generator | None) -> Tensor:
    return torch.rand(like.shape, generator=generator, dtype=like.dtype, device=like.device)


def _length(perturbation: Tensor) -> Tensor:
    return L2.size(perturbation).view(-1, *[1] * (perturbation.ndim - 1))


def _unit(direction: Tensor) -> Tensor:
    # Dividing by the largest coordinate first keeps the squares of very small gradients from vanishing.
    largest = direction.flatten(1).abs().amax(dim=1).view(-1, *[1] * (direction.ndim - 1))
    scaled = direction / largest.clamp_min(_tiny(direction))
    return scaled / _length(scaled).clamp_min(_tiny(direction))


def _tiny(like: Tensor) -> float:
    return torch.finfo(like.dtype).tiny
