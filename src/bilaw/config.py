"""Every setting of a training run, checked once, here, and never passed below `training/`.

The defaults are the paper's protocol (METHOD sections 3 and 6). `scheme.burn_in` and `scheme.margin_from` default
to what suits the scheme; None anywhere means "the default of whatever was chosen".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bilaw.algorithm import META_POINTS
from bilaw.attacks import NORMS, STARTS
from bilaw.derivatives import DERIVATIVES
from bilaw.errors import look_up, number_at_least, refuse, whole_at_least
from bilaw.losses import LOSSES
from bilaw.training.schedule import SCHEDULES
from bilaw.weighting import FEATURES, PRESETS, SCHEMES
from bilaw.weighting.features import POINTS

TRAINING_ATTACKS = {"pgd": "iterative", "f-fgsm": "one step from a random start", "fgsm": "one step from x"}
META_OPTIMIZERS = {"adam": "Adam", "sgd": "plain SGD"}


@dataclass(frozen=True)
class LossConfig:
    """What is minimised."""

    name: str = "adversarial-ce"
    inv_lambda: float = 6.0  # TRADES' 1/lambda
    strength: float = 5.0  # MART's factor of the KL

    def __post_init__(self) -> None:
        look_up("loss.name", self.name, LOSSES)
        number_at_least("loss.inv_lambda", self.inv_lambda, 0)
        number_at_least("loss.strength", self.strength, 0)


@dataclass(frozen=True)
class AttackConfig:
    """The attack that training faces; evaluation uses its ball, too."""

    name: str = "pgd"
    eps: float = 0.1
    norm: str = "linf"
    steps: int = 10
    step_size: float | None = None  # None: eps / 4
    start: str | None = None  # None: the loss's own
    fraction: float = 1.0  # attack only this share of each batch, the heaviest samples

    def __post_init__(self) -> None:
        look_up("attack.name", self.name, TRAINING_ATTACKS)
        number_at_least("attack.eps", self.eps, 0)
        look_up("attack.norm", self.norm, NORMS)
        whole_at_least("attack.steps", self.steps, 1)
        if self.step_size is not None:
            number_at_least("attack.step_size", self.step_size, 0, above=True)
        if self.start is not None:
            look_up("attack.start", self.start, STARTS)
        if not 0 < number_at_least("attack.fraction", self.fraction, 0) <= 1:
            refuse("attack.fraction", self.fraction, "a number above 0 and at most 1")


@dataclass(frozen=True)
class SchemeConfig:
    """How samples are weighted; the second half is the weight network's."""

    name: str = "uniform"
    preset: str = "paper"  # for gairat, wmmr and mail
    burn_in: float | None = None  # first fraction of the epochs with uniform weights; None: the preset's
    features: str = "multiclass-margin"
    margin_from: str = "clean"
    hidden: tuple[int, ...] = (128,)
    optimizer: str = "adam"
    lr: float = 1e-3  # alpha
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        look_up("scheme.name", self.name, SCHEMES)
        look_up("scheme.preset", self.preset, PRESETS)
        if self.burn_in is not None and number_at_least("scheme.burn_in", self.burn_in, 0) > 1:
            refuse("scheme.burn_in", self.burn_in, "a fraction of the epochs, from 0 to 1")
        look_up("scheme.features", self.features, FEATURES)
        look_up("scheme.margin_from", self.margin_from, POINTS)
        for width in self.hidden:
            whole_at_least("scheme.hidden", width, 1)
        look_up("scheme.optimizer", self.optimizer, META_OPTIMIZERS)
        number_at_least("scheme.lr", self.lr, 0)
        number_at_least("scheme.weight_decay", self.weight_decay, 0)

    @property
    def learns(self) -> bool:
        """Tell whether the scheme needs the meta set."""
        return hasattr(SCHEMES[self.name], "learn")


@dataclass(frozen=True)
class MetaConfig:
    """The reweighting half of a step, for schemes that learn."""

    loss: str | None = None  # None: the training loss
    attack: str | None = None  # None: the training attack
    at: str = "theta~"
    every: int = 1
    derivative: str = "exact"
    batch: int = 128

    def __post_init__(self) -> None:
        if self.loss is not None:
            look_up("meta.loss", self.loss, LOSSES)
        if self.attack is not None:
            look_up("meta.attack", self.attack, TRAINING_ATTACKS)
        look_up("meta.at", self.at, META_POINTS)
        whole_at_least("meta.every", self.every, 1)
        look_up("meta.derivative", self.derivative, DERIVATIVES)
        whole_at_least("meta.batch", self.batch, 1)


@dataclass(frozen=True)
class OptimConfig:
    """The classifier's own optimisation: SGD as in the paper."""

    epochs: int = 100
    batch: int = 128
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 2e-4
    schedule: str = "piecewise"

    def __post_init__(self) -> None:
        whole_at_least("optim.epochs", self.epochs, 1)
        whole_at_least("optim.batch", self.batch, 2)
        number_at_least("optim.lr", self.lr, 0, above=True)
        if not 0 <= number_at_least("optim.momentum", self.momentum, 0) < 1:
            refuse("optim.momentum", self.momentum, "a number from 0 up to, but not including, 1")
        number_at_least("optim.weight_decay", self.weight_decay, 0)
        look_up("optim.schedule", self.schedule, SCHEDULES)


@dataclass(frozen=True)
class Config:
    """A training run."""

    loss: LossConfig = field(default_factory=LossConfig)
    attack: AttackConfig = field(default_factory=AttackConfig)
    scheme: SchemeConfig = field(default_factory=SchemeConfig)
    meta: MetaConfig = field(default_factory=MetaConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        whole_at_least("seed", self.seed, 0)
        if self.loss.name == "plain" and self.scheme.name != "uniform":
            refuse(
                "scheme.name",
                self.scheme.name,
                "uniform when loss.name is plain: there is no robust part to weigh",
            )
