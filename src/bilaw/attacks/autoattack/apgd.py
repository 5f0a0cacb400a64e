"""APGD: projected gradient ascent with momentum that halves its own step (Croce & Hein 2020, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from bilaw.attacks.autoattack.pending import EVERY, Pending, Rows, let_go, likeliest, pending
from bilaw.attacks.autoattack.ratio import dlr, targeted_dlr
from bilaw.attacks.norms import NORMS, Ball
from bilaw.attacks.pgd import input_gradient
from bilaw.errors import look_up, number_at_least, whole_at_least
from bilaw.margins import misclassified
from bilaw.rows import columns, put
from bilaw.types import Adversarial, Batch, LogitsOf

MOMENTUM = 0.75  # alpha: the share of the new step; the rest goes on as before
RISES = 0.75  # rho: with fewer successful steps than this share since the last checkpoint, the step is halved
FIRST, LESS, LEAST = (
    0.22,
    0.03,
    0.06,
)  # checkpoints: the first interval, how much shorter each next one is, the shortest

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # logits, y, target -> (B,)
LOSSES: dict[str, Loss] = {
    "ce": lambda logits, y, target: F.cross_entropy(logits, y, reduction="none"),
    "dlr": lambda logits, y, target: dlr(logits, y),
    "targeted-dlr": targeted_dlr,
}


@dataclass(frozen=True)
class APGD:
    """APGD on `loss`, from a random point of the ball's surface; a targeted loss is climbed for `targets` classes.

    The step starts at 2 eps. At checkpoints a sample's step is halved, and its best point taken up again, if too few
    steps raised the loss, or if neither the step nor the best loss has changed since the last checkpoint.
    """

    eps: float
    norm: str = "linf"
    loss: str = "ce"
    steps: int = 100
    targets: int = 9
    restarts: int = 1

    def __post_init__(self) -> None:
        number_at_least("eps", self.eps, 0)
        look_up("norm", self.norm, NORMS)
        look_up("loss", self.loss, LOSSES)
        whole_at_least("steps", self.steps, 1)
        whole_at_least("targets", self.targets, 1)
        whole_at_least("restarts", self.restarts, 1)

    @property
    def passes(self) -> int:
        """Return how many network passes a sample costs at most, a backward pass counted as two."""
        targets = self.targets if self.loss == "targeted-dlr" else 1
        return 1 + 3 * targets * self.restarts * (self.steps + 1)

    def __call__(
        self, logits_of: LogitsOf | nn.Module, batch: Batch, generator: Generator | None = None
    ) -> Adversarial:
        """Return a misclassified point for every sample that one was found for, else the one of highest loss."""
        at_work = pending(logits_of, batch)
        targeted = self.loss == "targeted-dlr"
        targets = likeliest(at_work.logits, batch.y, self.targets if targeted else 1)
        for target in targets.T:
            for _ in range(self.restarts):
                self._climb(at_work, batch, target, generator)
        return at_work.result()

    def _climb(self, at_work: Pending, batch: Batch, target: Tensor, generator: Generator | None) -> None:
        """Climb once, from one random start, with the samples that are left."""
        if not len(at_work.left):
            return
        climbers = _begin(at_work, batch, target, self, generator)
        ball, check = NORMS[self.norm](climbers.x, self.eps), _checkpoints(self.steps)
        for i in range(self.steps):
            climbers.move(ball, 1.0 if i == 0 else MOMENTUM)
            climbers.look(at_work.logits_of, LOSSES[self.loss])
            if i in check:
                climbers.adapt(check[i])
            if i % EVERY == EVERY - 1 or i in check:
                climbers = let_go(climbers, at_work, climbers.wrong, climbers.wrong_x)
                if not len(climbers.place):
                    return
                ball = NORMS[self.norm](climbers.x, self.eps)
        climbers = let_go(climbers, at_work, climbers.wrong, climbers.wrong_x)
        at_work.x[climbers.place] = climbers.best_x


@dataclass
class Climbers(Rows):
    """Where each sample stands in its climb."""

    x: Tensor
    y: Tensor
    target: Tensor
    x_adv: Tensor  # the iterate, the one before it, and the loss and its gradient there
    x_old: Tensor
    loss: Tensor
    gradient: Tensor
    step: Tensor
    best_x: Tensor  # the point of highest loss so far
    best_loss: Tensor
    best_gradient: Tensor
    rises: Tensor  # steps that raised the loss since the last checkpoint
    halved: Tensor  # was the step halved there?
    loss_then: Tensor  # the best loss at that time
    wrong: Tensor  # has a misclassified point been seen?
    wrong_x: Tensor

    def move(self, ball: Ball, momentum: float) -> None:
        """Take a step: ascent, and some of the last move again (equation 1 of the paper)."""
        moved = ball.climb(self.x_adv, self.gradient, columns(self.step, self.x))
        if momentum < 1:  # x_adv + m (ahead - x_adv) + (1 - m) (x_adv - x_old), gathered
            rest = 1 - momentum
            moved = moved.mul_(momentum).add_(self.x_adv, alpha=2 * rest).sub_(self.x_old, alpha=rest)
            moved = ball.project(moved)
        self.x_old, self.x_adv = self.x_adv, moved

    def look(self, logits_of: LogitsOf, loss: Loss) -> None:
        """See what the classifier makes of the new iterate."""
        seen: list[Tensor] = []

        def value(logits: Tensor) -> Tensor:
            seen.append(loss(logits, self.y, self.target))
            return seen[-1]

        logits, gradient = input_gradient(logits_of, self.x_adv, value)
        self.gradient = gradient.nan_to_num(0, 0, 0)  # one that is not a number says nothing
        now = seen[-1].detach()
        self.rises += now > self.loss
        self.loss = now
        better = now > self.best_loss
        self.best_loss = torch.where(better, now, self.best_loss)
        put(better, self.x_adv, self.best_x)
        put(better, self.gradient, self.best_gradient)
        wrong = misclassified(logits, self.y)
        put(wrong, self.x_adv, self.wrong_x)
        self.wrong = self.wrong | wrong

    def adapt(self, interval: int) -> None:
        """Halve the step where it got too little done (conditions 1 and 2), and go back to the best point there."""
        stuck = ~self.halved & (self.loss_then >= self.best_loss)
        self.halved = (self.rises <= RISES * interval) | stuck
        self.loss_then = self.best_loss
        self.rises = torch.zeros_like(self.rises)
        self.step = torch.where(self.halved, self.step / 2, self.step)
        put(self.halved, self.best_x, self.x_adv)
        put(self.halved, self.best_gradient, self.gradient)


def _begin(at_work: Pending, batch: Batch, target: Tensor, attack: APGD, generator: Generator | None) -> Climbers:
    """Start on the surface of the ball, in a random direction."""
    left = at_work.left
    x, y, target = batch.x[left].detach(), batch.y[left], target[left]
    ball = NORMS[attack.norm](x, attack.eps)
    away = ball.anywhere(x, generator)
    size = ball.size(away).clamp_min(torch.finfo(x.dtype).tiny)
    start = ball.project(x + attack.eps * away / columns(size, x))
    low = torch.full((len(x),), -torch.inf, dtype=x.dtype, device=x.device)
    nothing, no = torch.zeros_like(x), torch.zeros_like(y, dtype=torch.bool)
    climbers = Climbers(
        place=left,
        x=x,
        y=y,
        target=target,
        x_adv=start,
        x_old=start,
        loss=low,
        gradient=nothing,
        step=torch.full_like(low, 2 * attack.eps),
        best_x=start.clone(),
        best_loss=low,
        best_gradient=nothing.clone(),
        rises=torch.zeros_like(y),
        halved=~no,
        loss_then=low,
        wrong=no,
        wrong_x=start.clone(),
    )
    climbers.look(at_work.logits_of, LOSSES[attack.loss])
    climbers.rises.zero_()  # the start is no step
    climbers.loss_then = climbers.best_loss
    return climbers


def _checkpoints(steps: int) -> dict[int, int]:
    """Return the iterations after which the step is looked at, and how many each has behind it.

    >>> list(_checkpoints(100).items())[:3]
    [(21, 22), (40, 19), (56, 16)]
    """
    interval, least = max(int(FIRST * steps), 1), max(int(LEAST * steps), 1)
    found, at = {}, interval
    while at <= steps:
        found[at - 1] = interval
        interval = max(interval - max(int(LESS * steps), 1), least)
        at += interval
    return found


def apgd_ce(eps: float, norm: str = "linf", steps: int = 100) -> APGD:
    """Return the ensemble's first attack: APGD on the cross-entropy."""
    return APGD(eps, norm, "ce", steps)


def apgd_targeted(eps: float, norm: str = "linf", steps: int = 100, targets: int = 9) -> APGD:
    """Return the ensemble's second attack: APGD on the targeted DLR loss, against the `targets` likeliest classes."""
    return APGD(eps, norm, "targeted-dlr", steps, targets)
