"""Square: random search with squares, no gradient at all (Andriushchenko et al. 2020, Algorithms 1 to 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Generator, Tensor, nn

from bilaw.attacks.autoattack.bumps import bump, tiles
from bilaw.attacks.autoattack.pending import Rows, attack_generator, let_go, pending
from bilaw.attacks.norms import NORMS
from bilaw.chain.windows import Probe, Span, Whole, Window, cut
from bilaw.errors import look_up, number_at_least, refuse, whole_at_least
from bilaw.margins import largest_other
from bilaw.rows import columns
from bilaw.types import Adversarial, Batch, LogitsOf

HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # queries after which the square's area is halved
NARROW = 3  # squares of no more than a third of the image's side reach little enough of it
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
        at_work = pending(logits_of, batch, bf16=False)  # a search that compares margins cannot do with fewer digits
        if not len(at_work.left):
            return at_work.result()
        place, shape = at_work.left, batch.x.shape
        x = batch.x[place].detach()
        x = x if x.ndim == 4 else x.reshape(len(x), 1, 1, -1)
        dice = Dice(generator, attack_generator(generator, x.device))
        kind: type[_Search] = _Linf if self.norm == "linf" else _L2
        search = kind.begin(place, x, batch.y[place], self.eps, dice, _on_images(at_work.logits_of, shape))
        for query in range(1, self.queries):
            side = math.sqrt(self.share / 2 ** sum(query > at for at in HALVINGS) * x[0, 0].numel())
            search.try_square(self.eps, side, dice)
            if query % EVERY == 0:
                search = let_go(search, at_work, search.margin < 0, search.best.images.reshape(-1, *shape[1:]))
                if not len(search.place):
                    return at_work.result()
        search = let_go(search, at_work, search.margin < 0, search.best.images.reshape(-1, *shape[1:]))
        at_work.x[search.place] = search.best.images.reshape(-1, *shape[1:])
        return at_work.result()


def _on_images(logits_of: LogitsOf, shape: torch.Size) -> LogitsOf:
    """Return the classifier as one of images (B, C, H, W), which inputs of any other shape are taken for."""
    return logits_of if len(shape) == 4 else lambda x: logits_of(x.reshape(-1, *shape[1:]))


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
    best: Probe
    margin: Tensor

    @classmethod
    def begin(
        cls: type[Search], place: Tensor, x: Tensor, y: Tensor, eps: float, dice: Dice, logits_of: LogitsOf
    ) -> Search:
        """Take the first point of each sample."""
        best = Whole(logits_of, cls.first(x, eps, dice))
        return cls(place, x, y, best, margin_of(best.logits(), y))

    @staticmethod
    def first(x: Tensor, eps: float, dice: Dice) -> Tensor:
        """Return the first point of each sample."""
        raise NotImplementedError

    def try_square(self, eps: float, side: float, dice: Dice) -> None:
        """Try another point of each sample, and keep it where the margin fell."""
        raise NotImplementedError

    def look(self, patch: Tensor, window: Window) -> None:
        """Put the patch into the window, and keep it where the margin fell."""
        margin = margin_of(self.best.look(patch, window), self.y)
        better = margin < self.margin
        self.best.take(better)
        self.margin = torch.minimum(margin, self.margin)

    def window(self, side: int, dice: Dice) -> Window:
        """Draw the place of a square, or of what fits of it."""
        height, width = self.x.shape[2:]
        tall, wide = min(side, height), min(side, width)
        top, left = dice.place(height - tall), dice.place(width - wide)
        return Span(top, top + tall), Span(left, left + wide)


Search = TypeVar("Search", bound=_Search)


def margin_of(logits: Tensor, y: Tensor) -> Tensor:
    """Return z_y - max_{t != y} z_t (B,); of logits that are no numbers, which classify nothing, -inf."""
    margin = logits.gather(1, y[:, None])[:, 0] - largest_other(logits, y)
    return torch.where(logits.isfinite().all(dim=1), margin, -torch.inf)


class _Linf(_Search):
    @staticmethod
    def first(x: Tensor, eps: float, dice: Dice) -> Tensor:
        """Return vertical stripes of +-eps."""
        n, c, _, w = x.shape
        return (x + eps * dice.signs(n, c, 1, w, like=x)).clamp(0, 1)

    def try_square(self, eps: float, side: float, dice: Dice) -> None:
        """Move one square by 2 eps, up or down in each channel, and keep it where the margin fell."""
        if isinstance(self.best, Whole) and NARROW * side <= min(self.x.shape[2:]):
            self.best = self.best.narrowed()
        window = self.window(max(round(side), 1), dice)
        x = cut(self.x, window)
        moved = cut(self.best.images, window) + 2 * eps * dice.signs(x.shape[1], 1, 1, like=x)
        self.look(torch.minimum(torch.maximum(moved, x - eps), x + eps).clamp_(0, 1), window)


class _L2(_Search):
    @staticmethod
    def first(x: Tensor, eps: float, dice: Dice) -> Tensor:
        """Return a tiling of bumps of random signs."""
        return _out(x, tiles(x, dice), eps)

    def try_square(self, eps: float, side: float, dice: Dice) -> None:
        """Move the mass of one window into another, in the form of a bump, and keep it where the margin fell."""
        side = max(round(side), 3)
        side += side % 2 == 0
        delta = self.best.images - self.x
        to, off = self.window(side, dice), self.window(side, dice)
        both = torch.zeros_like(delta[:1])
        cut(both, to).fill_(1)
        cut(both, off).fill_(1)
        length = NORMS["l2"].size
        free = (eps**2 - columns(length(delta), delta).square()).clamp_min(0) / delta.shape[1]
        free = free + (delta * both).square().sum(dim=(2, 3), keepdim=True)
        old = cut(delta, to).clone()
        new = bump(old.shape[2], old.shape[3], dice, old) * dice.signs(*old.shape[:2], 1, 1, like=old) + _unit(old)
        cut(delta, off).zero_()
        cut(delta, to).copy_(_unit(new) * free.sqrt())
        height, width = delta.shape[2:]
        self.look(_out(self.x, delta, eps), (Span(0, height), Span(0, width)))


def _out(x: Tensor, delta: Tensor, eps: float) -> Tensor:
    """Return x + delta, lengthened or shortened to eps, in the box."""
    length = columns(NORMS["l2"].size(delta), delta).clamp_min(1e-12)
    return (x + eps * delta / length).clamp(0, 1)


def _unit(plane: Tensor) -> Tensor:
    """Return each channel of each sample at length 1."""
    return plane / (plane.square().sum(dim=(2, 3), keepdim=True).sqrt() + 1e-12)
