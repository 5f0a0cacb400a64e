"""FAB: the nearest misclassified point, by steps to the decision boundary's linearisation (Croce & Hein 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from bilaw.attacks.autoattack.pending import EVERY, Pending, Rows, let_go, likeliest, pending
from bilaw.attacks.autoattack.projection import to_hyperplane
from bilaw.attacks.norms import NORMS
from bilaw.errors import look_up, number_at_least, whole_at_least
from bilaw.margins import misclassified
from bilaw.rows import put
from bilaw.types import Adversarial, Batch, LogitsOf

BIAS = 0.1  # alpha_max: the most that x itself draws an iterate back
BEYOND = 1.05  # eta: a little over the hyperplane, for the boundary is curved
BACK = 0.9  # beta: from a misclassified point, this much of the way from x again
SHORT = 1e-8
DISCARD = 1 / 3  # a gradient is worth taking if no larger share of it is thrown away


@dataclass(frozen=True)
class FAB:
    """Targeted FAB: `steps` iterations towards each of the `targets` likeliest classes, from x itself.

    FAB minimises the norm of the perturbation. Here a point inside the ball of radius `eps` is all that is wanted, so
    a sample is done with the first one.
    """

    eps: float
    norm: str = "linf"
    steps: int = 100
    targets: int = 9

    def __post_init__(self) -> None:
        number_at_least("eps", self.eps, 0)
        look_up("norm", self.norm, NORMS)
        whole_at_least("steps", self.steps, 1)
        whole_at_least("targets", self.targets, 1)

    @property
    def passes(self) -> int:
        """Return how many network passes a sample costs at most, a backward pass counted as two."""
        return 1 + self.targets * (3 + 6 * (self.steps - 1) + 1)  # a sample drawn back is looked at twice

    def __call__(
        self, logits_of: LogitsOf | nn.Module, batch: Batch, generator: Generator | None = None
    ) -> Adversarial:
        """Return a misclassified point of its ball for every sample that one was found for, else x."""
        at_work = pending(logits_of, batch, bf16=False)  # near the boundary z_target - z_y has no digits to lose
        for target in likeliest(at_work.logits, batch.y, self.targets).T:
            self._approach(at_work, batch, target)
        return at_work.result()

    def _approach(self, at_work: Pending, batch: Batch, target: Tensor) -> None:
        left = at_work.left
        if not len(left):
            return
        x, y, target = batch.x[left].detach(), batch.y[left], target[left]
        nothing, no = torch.zeros_like(x), torch.zeros_like(y, dtype=torch.bool)
        lead = nothing.flatten(1)[:, 0]
        seekers = Seekers(left, x, y, target, x_adv=x, lead=lead, gradient=nothing, done=no, found=x.clone())
        seekers.look(at_work.logits_of)
        for i in range(self.steps):
            seekers.advance(self.norm)
            seekers.judge(at_work.logits_of, self.eps, self.norm, last=i == self.steps - 1)
            if i % EVERY == EVERY - 1 or i == self.steps - 1:
                seekers = let_go(seekers, at_work, seekers.done, seekers.found)
                if not len(seekers.place):
                    return


@dataclass
class Seekers(Rows):
    """Where each sample stands on its way to the boundary."""

    x: Tensor
    y: Tensor
    target: Tensor
    x_adv: Tensor
    lead: Tensor  # z_target - z_y at x_adv, and its gradient
    gradient: Tensor
    done: Tensor  # was a misclassified point found inside the ball?

    found: Tensor  # that point

    def advance(self, norm: str) -> None:
        """Step over the linearised boundary, biased towards x (equation 10 of the paper)."""
        x, x_adv, w = self.x.flatten(1), self.x_adv.flatten(1), self.gradient.flatten(1)
        b = torch.linalg.vecdot(w, x_adv) - self.lead
        there, back = (to_hyperplane(start, w, b, norm) for start in (x_adv, x))
        of_iterate, of_x = (NORMS[norm].size(way).clamp_min(SHORT)[:, None] for way in (there, back))
        bias = (of_iterate / (of_iterate + of_x)).clamp(0, BIAS)
        mixed = torch.lerp(there.mul_(BEYOND).add_(x_adv), back.mul_(BEYOND).add_(x), bias)
        # A step that is not a number is none: gradients at the end of float32's range, say.
        put(mixed.sum(dim=1).isnan(), x_adv, mixed)
        self.x_adv = mixed.clamp_(0, 1).view_as(self.x)

    def judge(self, logits_of: LogitsOf, eps: float, norm: str, last: bool) -> None:
        """See which iterates are misclassified, keep those inside the ball, draw the others back, look again."""
        with torch.set_grad_enabled(not last):
            x_adv = self.x_adv.detach().requires_grad_(not last)
            logits = logits_of(x_adv)
        wrong = misclassified(logits.detach(), self.y)
        inside = NORMS[norm].size(self.x_adv - self.x) <= eps
        put(wrong & inside & ~self.done, self.x_adv, self.found)
        self.done = self.done | (wrong & inside)
        if last:
            return
        far = wrong & ~inside
        moved = far.nonzero()[:, 0]
        if len(moved):
            drawn = torch.lerp(self.x[moved], self.x_adv[moved], BACK)
            self.x_adv = self.x_adv.index_copy(0, moved, drawn)
        if len(moved) > DISCARD * len(far):
            self.look(logits_of)
            return
        self.lead, self.gradient = _lead(logits, x_adv, self.y, self.target)
        if len(moved):
            some = self.keep(moved)
            some.look(logits_of)
            self.lead = self.lead.index_copy(0, moved, some.lead)
            self.gradient = self.gradient.index_copy(0, moved, some.gradient)

    def look(self, logits_of: LogitsOf) -> None:
        """Linearise z_target - z_y at the iterate."""
        with torch.enable_grad():
            x_adv = self.x_adv.detach().requires_grad_()
            logits = logits_of(x_adv)
        self.lead, self.gradient = _lead(logits, x_adv, self.y, self.target)


def _lead(logits: Tensor, x: Tensor, y: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        lead = (logits.gather(1, target[:, None]) - logits.gather(1, y[:, None]))[:, 0]
        (gradient,) = torch.autograd.grad(lead.sum(), x)
    return lead.detach(), gradient.nan_to_num(0, 0, 0)  # one that is not a number says nothing
