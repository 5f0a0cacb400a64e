"""Attack only the samples that weigh most (METHOD section 7: PGD on 80 % of the batch, 1.3x)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, nn

from bilaw.checks import check_images
from bilaw.errors import number_at_least, refuse
from bilaw.net import frozen
from bilaw.types import Adversarial, Attack, Batch, LogitsOf, Scheme, Terms


@dataclass(frozen=True)
class TopFraction:
    """Give `attack` the `fraction` of the batch with the largest weights; the rest keeps its clean x.

    The weights have to be known before there is an adversarial x, so the scheme must read clean logits alone.
    Losses train the spared samples plainly, and their weight is zero.
    """

    attack: Attack
    scheme: Scheme
    fraction: float = 0.8

    def __post_init__(self) -> None:
        if not 0 < number_at_least("fraction", self.fraction, 0) <= 1:
            refuse("fraction", self.fraction, "a number above 0 and at most 1")
        if isinstance(self.attack, TopFraction):
            refuse("attack", "TopFraction", "an attack on whole batches, not another TopFraction")
        if not self.scheme.reads <= {"clean"}:
            refuse("scheme", type(self.scheme).__name__, "one whose weights depend on the clean x alone")

    def __call__(
        self, logits_of: LogitsOf | nn.Module, batch: Batch, generator: Generator | None = None
    ) -> Adversarial:
        """Attack the heaviest samples of `batch`."""
        check_images(batch.x, batch.y)
        classifier, batch = frozen(logits_of), batch._replace(x=batch.x.detach())
        with torch.no_grad():
            logits = classifier(batch.x)
            nothing = torch.zeros_like(logits[:, 0])
            clean = Adversarial(batch.x, torch.zeros_like(batch.y), steps=0)
            weights = self.scheme(Terms(nothing, nothing, logits, None), clean, batch.y)
        share = round(self.fraction * len(batch.y), 6)  # 0.55 of 100 is 55, not 55.00000000000001
        top = weights.topk(max(1, math.ceil(share))).indices
        found = self.attack(classifier, Batch(*(part[top] for part in batch)), generator)
        return Adversarial(
            x=batch.x.index_copy(0, top, found.x),
            survived=torch.full_like(batch.y, found.steps).index_copy(0, top, found.survived),
            steps=found.steps,
            attacked=torch.zeros_like(batch.y, dtype=torch.bool).index_fill(0, top, True),
        )
