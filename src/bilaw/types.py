"""The four tuples and three protocols everything else is written against.

Shapes: B is the batch, k the number of classes; images are (B, channels, height, width).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Generator, Tensor

LogitsOf = Callable[[Tensor], Tensor]
"""A classifier with its parameters and mode already chosen: images in, logits (B, k) out."""


class Batch(NamedTuple):
    """Labelled images, and where in the data set they come from."""

    x: Tensor  # (B, ...) in [0, 1]
    y: Tensor  # (B,) int64, 0..k-1
    index: Tensor  # (B,) int64: the sample's place in the data set


class Adversarial(NamedTuple):
    """What an attack found for one batch."""

    x: Tensor  # like Batch.x: inside the ball around it and inside [0, 1]
    survived: Tensor  # (B,) int64: iterates still classified correctly, GAIRAT's kappa in 0..steps
    attacked: Tensor | None = None  # (B,) bool; None: every sample was attacked


class Terms(NamedTuple):
    """Per-sample loss terms; only the step weighs and sums them."""

    fixed: Tensor  # (B,) never weighted
    robust: Tensor  # (B,) what the weight multiplies
    logits: Tensor | None  # (B, k) at the clean x; None where the loss never looks there
    logits_adv: Tensor | None  # (B, k) at the adversarial x; None without an attack


@runtime_checkable
class Attack(Protocol):
    """Finds, for every sample of a batch, a point in its ball that the classifier gets wrong."""

    def __call__(self, logits_of: LogitsOf, batch: Batch, generator: Generator | None = None) -> Adversarial:
        """Attack `batch`; all randomness comes from `generator`."""
        ...


class Loss(Protocol):
    """Per-sample training loss; `attack` names the objective and the start that suit it."""

    objective: str
    start: str

    def __call__(self, logits_of: LogitsOf, batch: Batch, adversarial: Adversarial) -> Terms:
        """Return the per-sample terms at the parameters behind `logits_of`."""
        ...


class Scheme(Protocol):
    """Raw weights >= 0 of a batch, from what the network says of it. They carry no gradient to theta."""

    normalised: bool  # divide by the batch's sum (the paper); else by its size (some official codes)
    reads_clean: bool  # needs Terms.logits, the logits at the clean x

    def __call__(self, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
        """Return raw weights (B,)."""
        ...
