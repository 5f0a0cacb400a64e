"""What an attack of the ensemble works on: the samples that are not broken yet, and nothing else.

A broken sample leaves the batch while the attack goes on, so that no pass is spent on it. Samples leave together,
every few iterations: to ask an accelerator which ones are broken is to wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from torch import Generator, Tensor, nn

from bilaw.checks import check_images, check_labels
from bilaw.errors import refuse
from bilaw.margins import misclassified
from bilaw.net import frozen, quick
from bilaw.types import Adversarial, Batch, LogitsOf

EVERY = 5  # iterations between two looks at which samples are broken

State = TypeVar("State", bound="Rows")


@dataclass
class Rows:
    """Tensors with a row for each sample that an attack is at work on; subclasses add their own."""

    place: Tensor  # (B,) where the sample stands in the batch the attack was given

    def keep(self: State, which: Tensor) -> State:
        """Return the rows at the places `which`."""
        return type(self)(**{field.name: getattr(self, field.name)[which] for field in fields(self)})


@dataclass
class Pending:
    """A batch under attack: the points found so far, and the places of the samples still classified correctly."""

    logits_of: LogitsOf  # to climb: quick, and right but for rounding
    exact: LogitsOf  # whose word counts
    y: Tensor  # (B,)
    x: Tensor  # (B, ...) the points found; until then x itself, or the best that an attack has seen
    left: Tensor  # (M,) places of the samples that are not broken
    logits: Tensor  # (B, k) at the clean x

    def broke(self, place: Tensor, x: Tensor) -> None:
        """Take note of misclassified points."""
        self.x[place] = x
        gone = torch.zeros(len(self.x), dtype=torch.bool, device=self.x.device)
        gone[place] = True
        self.left = self.left[~gone[self.left]]

    def result(self) -> Adversarial:
        """Return what was found; an attack of the ensemble counts no iterates."""
        return Adversarial(self.x, torch.zeros(len(self.x), dtype=torch.int64, device=self.x.device), steps=0)


def let_go(rows: State, at_work: Pending, broken: Tensor, x: Tensor) -> State:
    """Take note of the points `x` of the rows that are broken (B,) bool, and go on with the others.

    Where the attack climbs a quicker classifier, the exact one is asked whether it agrees; if not, `broken` is put
    right, and the row stays.
    """
    places = broken.nonzero()[:, 0]
    if len(places) and at_work.exact is not at_work.logits_of:
        with torch.no_grad():
            found = misclassified(at_work.exact(x[places]), at_work.y[rows.place[places]])
        broken.index_copy_(0, places, found)
        places = places[found]
    if not len(places):
        return rows
    at_work.broke(rows.place[places], x[places])
    return rows.keep((~broken).nonzero()[:, 0])


def pending(logits_of: LogitsOf | nn.Module, batch: Batch, bf16: bool | None = None) -> Pending:
    """Return the batch with its samples that are misclassified as they are already out of it.

    `bf16` False climbs in full precision, whatever the classifier says of attacks.
    """
    check_images(batch.x, batch.y)
    if torch.is_inference_mode_enabled():
        refuse("mode", "torch.inference_mode()", "torch.no_grad() or no such block: attacks take gradients")
    classifier, x = frozen(logits_of), batch.x.detach()
    with torch.no_grad():
        logits = classifier(x)
    check_labels(batch.y, logits.shape[1])
    left = (~misclassified(logits, batch.y)).nonzero()[:, 0]
    return Pending(quick(classifier, x, bf16), classifier, batch.y, x.clone(), left, logits)


def likeliest(logits: Tensor, y: Tensor, count: int) -> Tensor:
    """Return each sample's `count` likeliest wrong classes, likeliest first (all of them where there are fewer).

    >>> likeliest(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]), 9)
    tensor([[2, 1]])
    """
    others = logits.scatter(1, y[:, None], -torch.inf)
    return others.argsort(dim=1, descending=True)[:, : min(count, logits.shape[1] - 1)]


def attack_generator(generator: Generator | None, device: torch.device) -> Generator:
    """Return a generator on the host for choices that the host has to know, drawn from the given one."""
    seed = torch.randint(2**62, (), generator=generator, device=device)
    return torch.Generator().manual_seed(int(seed))
