"""The shapes that Square moves about in l2: two heaps of opposite sign side by side (Algorithm 3 of the paper)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Dice(Protocol):
    """What `square.Dice` offers."""

    def place(self, most: int) -> int:
        """Return a whole number from 0 to `most`."""
        ...

    def signs(self, *shape: int, like: Tensor) -> Tensor:
        """Return -1 and 1 in equal parts."""
        ...


def heap(tall: int, wide: int) -> Tensor:
    """Return nested rectangles about the middle, the k-th of them adding 1 / k^2, at length 1: (tall, wide).

    >>> heap(1, 3).square().sum()
    tensor(1.)
    """
    made = torch.zeros(tall, wide)
    row, column = tall // 2, wide // 2
    for k in range(max(row, column) + 1):
        rows = slice(max(row - k, 0), min(row + k + 1, tall))
        made[rows, max(column - k, 0) : min(column + k + 1, wide)] += 1 / (k + 1) ** 2
    return made / made.square().sum().sqrt()


def bump(tall: int, wide: int, dice: Dice, like: Tensor) -> Tensor:
    """Return a heap above its mirror of opposite sign, or beside it, at length 1: (tall, wide)."""
    lying = dice.place(1) == 1 if min(tall, wide) > 1 else tall == 1
    rows, columns = (wide, tall) if lying else (tall, wide)
    half = rows // 2
    below = -heap(rows - half, columns)
    made = torch.cat([heap(half, columns), below]) if half else -below
    made = made / made.square().sum().sqrt()
    return (made.T if lying else made).to(like)


def tiles(x: Tensor, dice: Dice) -> Tensor:
    """Return bumps side by side over whole images, each of a random sign in each channel: like x."""
    made = torch.zeros_like(x)
    height, width = x.shape[2:]
    tall, wide = max(height // 5, 1), max(width // 5, 1)
    top, left = (height - tall * (height // tall)) // 2, (width - wide * (width // wide)) // 2
    for row in range(top, height - tall + 1, tall):
        for column in range(left, width - wide + 1, wide):
            signs = dice.signs(*x.shape[:2], 1, 1, like=x)
            made[:, :, row : row + tall, column : column + wide] = bump(tall, wide, dice, x) * signs
    return made
