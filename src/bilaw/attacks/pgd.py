"""Projected gradient descent: the one loop behind every gradient attack here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from bilaw.attacks.norms import NORMS
from bilaw.attacks.objectives import OBJECTIVES, Objective, Value
from bilaw.attacks.starts import STARTS
from bilaw.checks import check_images, check_labels
from bilaw.errors import look_up, number_at_least, refuse, whole_at_least
from bilaw.net import frozen, quick
from bilaw.types import Adversarial, Batch, LogitsOf


@dataclass(frozen=True)
class PGD:
    """PGD (Madry et al. 2018): `steps` steepest-ascent steps of `step_size` (default eps / 4) inside the ball.

    `objective` is a name of `OBJECTIVES` or a function like those there. With `restarts` above 1 the worst point
    of each sample is kept: a misclassified one before any other, then the one of highest objective.

    >>> attack = PGD(eps=0.1, steps=20)
    >>> x = torch.tensor([[0.5, 0.5]])
    >>> batch = Batch(x, y=torch.tensor([0]), index=torch.tensor([0]))
    >>> attack(lambda x: 8 * x, batch, torch.Generator().manual_seed(0)).x
    tensor([[0.4000, 0.6000]])
    """

    eps: float
    norm: str = "linf"
    steps: int = 10
    step_size: float | None = None
    start: str = "uniform"
    objective: str | Objective = "ce"
    restarts: int = 1

    def __post_init__(self) -> None:
        number_at_least("eps", self.eps, 0)
        look_up("norm", self.norm, NORMS)
        whole_at_least("steps", self.steps, 1)
        if self.step_size is not None:
            number_at_least("step_size", self.step_size, 0, above=True)
        look_up("start", self.start, STARTS)
        if isinstance(self.objective, str) or not callable(self.objective):
            look_up("objective", self.objective, OBJECTIVES)
        whole_at_least("restarts", self.restarts, 1)

    @property
    def passes(self) -> int:
        """Return how many network passes a sample costs at most, a backward pass counted as two."""
        return self.restarts * (3 * self.steps + (self.restarts > 1))

    def __call__(
        self, logits_of: LogitsOf | nn.Module, batch: Batch, generator: Generator | None = None
    ) -> Adversarial:
        """Return adversarial points of `batch`; a module is attacked in eval mode and left as it was."""
        check_images(batch.x, batch.y)
        if torch.is_inference_mode_enabled():
            refuse("mode", "torch.inference_mode()", "torch.no_grad() or no such block: attacks take gradients")
        batch = batch._replace(x=batch.x.detach())
        classifier = quick(frozen(logits_of), batch.x)
        objective = OBJECTIVES[self.objective] if isinstance(self.objective, str) else self.objective
        value_of = _labels_checked(objective(classifier, batch), batch.y)
        found = self._climb(classifier, batch, value_of, generator)
        for _ in range(self.restarts - 1):
            other = self._climb(classifier, batch, value_of, generator)
            found = _worse(found, other, classifier, batch, value_of)
        return found

    def _climb(self, logits_of: LogitsOf, batch: Batch, value_of: Value, generator: Generator | None) -> Adversarial:
        ball = NORMS[self.norm](batch.x, self.eps)
        step_size = self.eps / 4 if self.step_size is None else self.step_size
        x_adv = STARTS[self.start](ball, batch.x, generator)
        survived = torch.zeros_like(batch.y)
        for _ in range(self.steps):
            logits, gradient = input_gradient(logits_of, x_adv, value_of)
            survived += logits.argmax(dim=1) == batch.y  # the iterate before its update, as GAIRAT counts
            x_adv = ball.climb(x_adv, gradient, step_size)
        # A gradient that is not a number would carry a sample out of its ball: it stays where it was.
        return Adversarial(torch.where(x_adv.isnan(), batch.x, x_adv), survived, self.steps)


def _labels_checked(value_of: Value, y: Tensor) -> Value:
    """Return `value_of`, with labels that no logit belongs to refused by name rather than by PyTorch."""

    def checked(logits: Tensor) -> Tensor:
        check_labels(y, logits.shape[1])
        return value_of(logits)

    return checked


def input_gradient(logits_of: LogitsOf, x: Tensor, value_of: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Return the logits at x and the gradient of each sample's value with respect to x, and to nothing else."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        logits = logits_of(x)
        (gradient,) = torch.autograd.grad(value_of(logits).sum(), x)
    return logits.detach(), gradient


@torch.no_grad()
def _worse(a: Adversarial, b: Adversarial, logits_of: LogitsOf, batch: Batch, value_of: Value) -> Adversarial:
    def badness(found: Adversarial) -> tuple[Tensor, Tensor]:
        logits = logits_of(found.x)
        return logits.argmax(dim=1) != batch.y, value_of(logits)

    (wrong_a, value_a), (wrong_b, value_b) = badness(a), badness(b)
    take_b = torch.where(wrong_a == wrong_b, value_b > value_a, wrong_b)
    pixels = take_b.view(-1, *[1] * (batch.x.ndim - 1))
    return Adversarial(torch.where(pixels, b.x, a.x), torch.where(take_b, b.survived, a.survived), a.steps)
