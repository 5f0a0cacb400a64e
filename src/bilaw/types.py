"""The three tuples and four protocols everything else is written against.

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
    index: Tensor  # type: ignore[assignment]  # (B,) int64 place in the data set; hides tuple.index


class Adversarial(NamedTuple):
    """What an attack found for one batch."""

    x: Tensor  # like Batch.x: inside the ball around it and inside [0, 1]
    survived: Tensor  # (B,) int64: iterates still classified correctly, GAIRAT's kappa in 0..steps
    steps: int  # GAIRAT's K
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
    """Per-sample training loss; it names the objective and the start of the attack that suits it."""

    @property
    def attacked(self) -> bool:
        """Does the loss look at the adversarial x at all?"""
        ...

    @property
    def objective(self) -> str:
        """Return what its attack maximises, a name of `attacks.OBJECTIVES`."""
        ...

    @property
    def start(self) -> str:
        """Return where its attack starts, a name of `attacks.STARTS`."""
        ...

    def __call__(self, logits_of: LogitsOf, batch: Batch, adversarial: Adversarial) -> Terms:
        """Return the per-sample terms at the parameters behind `logits_of`."""
        ...


class Scheme(Protocol):
    """Raw weights >= 0 of a batch, from what the network says of it. They carry no gradient to theta."""

    @property
    def normalised(self) -> bool:
        """Divide by the batch's sum (the paper)? Else by its size (some official codes)."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """Return what the weights depend on: "clean" logits, "adversarial" logits, the attack's "path"."""
        ...

    def __call__(self, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
        """Return raw weights (B,)."""
        ...


@runtime_checkable
class MetaScheme(Scheme, Protocol):
    """A scheme that learns from held-out data, through line 6 of Algorithm 1."""

    def learn(self, w: Tensor, s: Tensor, beta: float) -> Scheme:
        """Return the scheme for line 7, having seen that dL_val/dw_j = -beta s_j at the weights `w`."""
        ...
