"""Square: random search with squares, no gradient at all (Andriushchenko et al. 2020, Algorithms 1 to 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from bilaw.attacks.autoattack.bumps import bump, tiles
from bilaw.attacks.autoattack.pending import Pending, Rows, attack_generator, columns, let_go, pending
from bilaw.attacks.norms import NORMS
from bilaw.errors import look_up, number_at_least, refuse, whole_at_least
from bilaw.margins import largest_other
from bilaw.types import Adversarial, Batch, LogitsOf

HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # queries after which the square's area is halved
EVERY = 10  # queries between two looks at which samples are broken


@dataclass(frozen=True)
class Square:
    """Square attack: at most `queries` looks at the logits, the first square covering the share `share` of the image.

    One square is drawn for the whole batch, as the authors' code does. Inputs that are no images count as one row.
    """

    eps: float
    norm: str = "linf"
    queries: int = 5000
    share: float = 0.8

    def __post_init__(self) -> None:
        number_at_least("eps", self.eps, 0)
        look_up("norm", self.norm, NORMS)
        whole_at_least("queries", self.queries, 1)
        if not 0 < number_at_least("share", self.share, 0) <= 1:
            refuse("share", self.share, "a number above 0 and at most 1")

    @property
    def passes(self) -> int:
        """Return how many network passes a sample costs at most, a backward pass counted as two."""
        return 1 + self.queries

    @torch.no_grad()
    def __call__(
        self, logits_of: LogitsOf | nn.Module, batch: Batch, generator: Generator | None = None
    ) -> Adversarial:
        """Return a misclassified point for every sample that one was found for, else the one of lowest margin."""
        at_work = pending(logits_of, batch)
        if not len(at_work.left):
            return at_work.result()
        place, shape = at_work.left, batch.x.shape
        x = batch.x[place].detach()
        x = x if x.ndim == 4 else x.reshape(len(x), 1, 1, -1)
        dice = Dice(generator, attack_generator(generator, x.device))
        kind: type[_Search] = _Linf if self.norm == "linf" else _L2
        search = kind(place, x, batch.y[place], x, x[:, 0, 0, 0])
        search.begin(self.eps, dice)
        search.look(at_work, shape)
        for query in range(1, self.queries):
            side = math.sqrt(self.share / 2 ** sum(query > at for at in HALVINGS) * x[0, 0].numel())
            search.try_square(self.eps, side, dice, at_work, shape)
            if query % EVERY == 0:
                search = let_go(search, at_work, search.margin < 0, search.best.reshape(-1, *shape[1:]))
                if not len(search.place):
                    return at_work.result()
        search = let_go(search, at_work, search.margin < 0, search.best.reshape(-1, *shape[1:]))
        at_work.x[search.place] = search.best.reshape(-1, *shape[1:])
        return at_work.result()


@dataclass
class Dice:
    """What is random: numbers for the device, and places and signs that the host has to know."""

    device: Generator | None
    host: Generator

    def place(self, most: int) -> int:
        """Return a whole number from 0 to `most`."""
        return int(torch.randint(most + 1, (), generator=self.host))

    def signs(self, *shape: int, like: Tensor) -> Tensor:
        """Return -1 and 1 in equal parts."""
        drawn = torch.randint(2, shape, generator=self.device, device=like.device)
        return (2 * drawn - 1).to(like.dtype)


@dataclass
class _Search(Rows):
    """The best point of each sample, and its margin z_y - max_{t != y} z_t: negative means misclassified."""

    x: Tensor
    y: Tensor
    best: Tensor
    margin: Tensor

    def begin(self, eps: float, dice: Dice) -> None:
        """Take the first point of each sample."""
        raise NotImplementedError

    def try_square(self, eps: float, side: float, dice: Dice, at_work: Pending, shape: torch.Size) -> None:
        """Try another point of each sample, and keep it where the margin fell."""
        raise NotImplementedError

    def look(self, at_work: Pending, shape: torch.Size) -> None:
        """Take the margin of the best points anew."""
        self.margin = self.margin_of(self.best, at_work, shape)

    def margin_of(self, x: Tensor, at_work: Pending, shape: torch.Size) -> Tensor:
        logits = at_work.logits_of(x.reshape(-1, *shape[1:]))
        margin = logits.gather(1, self.y[:, None])[:, 0] - largest_other(logits, self.y)
        return torch.where(logits.isfinite().all(dim=1), margin, -torch.inf)

    def windows(self, side: int, dice: Dice) -> tuple[slice, slice]:
        height, width = self.x.shape[2:]
        tall, wide = min(side, height), min(side, width)
        top, left = dice.place(height - tall), dice.place(width - wide)
        return slice(top, top + tall), slice(left, left + wide)


class _Linf(_Search):
    def begin(self, eps: float, dice: Dice) -> None:
        """Start with vertical stripes of +-eps."""
        n, c, _, w = self.x.shape
        self.best = (self.x + eps * dice.signs(n, c, 1, w, like=self.x)).clamp(0, 1)

    def try_square(self, eps: float, side: float, dice: Dice, at_work: Pending, shape: torch.Size) -> None:
        """Move one square by 2 eps, up or down in each channel, and keep it where the margin fell."""
        at = (..., *self.windows(max(round(side), 1), dice))
        old, x = self.best[at].clone(), self.x[at]
        moved = old + 2 * eps * dice.signs(self.x.shape[1], 1, 1, like=x)
        moved = torch.minimum(torch.maximum(moved, x - eps), x + eps).clamp(0, 1)
        self.best[at] = moved
        margin = self.margin_of(self.best, at_work, shape)
        better = margin < self.margin
        self.best[at] = torch.where(columns(better, x), moved, old)
        self.margin = torch.where(better, margin, self.margin)


class _L2(_Search):
    def begin(self, eps: float, dice: Dice) -> None:
        """Start with a tiling of bumps of random signs."""
        self.best = self._out(tiles(self.x, dice), eps)

    def try_square(self, eps: float, side: float, dice: Dice, at_work: Pending, shape: torch.Size) -> None:
        """Move the mass of one window into another, in the form of a bump, and keep it where the margin fell."""
        side = max(round(side), 3)
        side += side % 2 == 0
        delta = self.best - self.x
        to, off = (..., *self.windows(side, dice)), (..., *self.windows(side, dice))
        both = torch.zeros_like(delta[:1])
        both[to], both[off] = 1, 1
        length = NORMS["l2"].size
        free = (eps**2 - columns(length(delta), delta).square()).clamp_min(0) / delta.shape[1]
        free = free + (delta * both).square().sum(dim=(2, 3), keepdim=True)
        old = delta[to]
        new = bump(old.shape[2], old.shape[3], dice, old) * dice.signs(*old.shape[:2], 1, 1, like=old) + _unit(old)
        new = _unit(new) * free.sqrt()
        delta = delta.clone()
        delta[off] = 0
        delta[to] = new
        tried = self._out(delta, eps)
        margin = self.margin_of(tried, at_work, shape)
        better = margin < self.margin
        self.best = torch.where(columns(better, tried), tried, self.best)
        self.margin = torch.where(better, margin, self.margin)

    def _out(self, delta: Tensor, eps: float) -> Tensor:
        """Return x + delta, lengthened or shortened to eps, in the box."""
        length = columns(NORMS["l2"].size(delta), delta).clamp_min(1e-12)
        return (self.x + eps * delta / length).clamp(0, 1)


def _unit(plane: Tensor) -> Tensor:
    """Return each channel of each sample at length 1."""
    return plane / (plane.square().sum(dim=(2, 3), keepdim=True).sqrt() + 1e-12)
