"""Every setting of a training run, checked once, here, and never passed below `training/`.

The defaults are the paper's protocol (METHOD sections 3 and 6). None stands for "auto": what suits the loss, the
scheme, the data set or the device. A setting has one name everywhere: `Config().attack.eps` in Python, `eps` under
`[attack]` in TOML, `--attack.eps` on the command line. What each is for stands beside it and is what `--help` prints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch

from bilaw.algorithm import META_POINTS
from bilaw.attacks import ATTACKS, NORMS, STARTS
from bilaw.derivatives import DERIVATIVES
from bilaw.errors import look_up, number_at_least, refuse, whole_at_least
from bilaw.losses import LOSSES
from bilaw.signatures import Make, check_entry, lacks, takes
from bilaw.training.schedule import SCHEDULES
from bilaw.weighting import FEATURES, PRESETS, SCHEMES, preset
from bilaw.weighting.features import POINTS, reads

SINGLE_STEP = ("f-fgsm", "fgsm")
HEURISTICS = tuple(dict.fromkeys(scheme for table in PRESETS.values() for scheme, _ in table))
NETWORKED = ("learned", "pretrained")  # schemes made of a weight network, and not of the settings alone
META_OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
PRECISIONS = {"fp32": "single precision", "bf16": "bfloat16 autocast, parameters in single precision"}
OVERFITTING = {"switch": "roll back and attack with PGD", "report": "say so", "off": "do not look"}
THREADS = 1024  # more than that, and OpenMP ends the process
SEEDS = 2**63  # TOML's whole numbers end there
LOGGERS = {"tensorboard": "event files", "wandb": "Weights & Biases", "mlflow": "MLflow"}


def setting(default: Any, meaning: str) -> Any:
    """Return a dataclass field that knows what it is for."""
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Checked:
    """Settings that are looked at once, when they are made; numpy's scalars become Python's numbers."""

    def __post_init__(self) -> None:
        for part in fields(self):
            if isinstance(value := getattr(self, part.name), np.generic):
                object.__setattr__(self, part.name, value.item())
        self.check()

    def check(self) -> None:
        """Refuse what is not accepted."""


@dataclass(frozen=True)
class DataConfig(Checked):
    """The images, and what is held out of the training half."""

    name: str = setting("digits", "a name (`bilaw data list`), an .npz file, a folder, or module:function")
    root: str | None = setting(None, "folder of downloaded data sets (auto: $BILAW_DATA, else the user's cache)")
    meta: int | None = setting(None, "held-out samples that mu learns from (auto: 1000, at most 15 %)")
    select: int | None = setting(None, "held-out samples that choose the epoch (auto: 1000, at most 15 %)")
    train: int | None = setting(None, "samples to learn from, balanced over the classes (auto: all not held out)")
    split_seed: int = setting(0, "seed of the two held-out splits, kept apart from the run's own")
    augment: bool | None = setting(None, "random crop and mirror (auto: what the data set says)")

    def check(self) -> None:
        """Refuse what is not accepted."""
        text("data.name", self.name)
        if self.root is not None:
            optional_text("data.root", self.root)
        for name in ("meta", "select", "train"):
            if getattr(self, name) is not None:
                whole_at_least(f"data.{name}", getattr(self, name), 2)
        check_seed("data.split_seed", self.split_seed)
        if self.augment is not None:
            truth("data.augment", self.augment)


@dataclass(frozen=True)
class ModelConfig(Checked):
    """The classifier."""

    name: str = setting("tiny-cnn", "fc1, tiny-cnn, small-cnn, wrn-D-K, or your own as module:function")
    weights: str | None = setting(None, "safetensors file to start from (auto: weights drawn from the seed)")

    def check(self) -> None:
        """Refuse what is not accepted."""
        text("model.name", self.name)
        if self.weights is not None:
            optional_text("model.weights", self.weights)


@dataclass(frozen=True)
class LossConfig(Checked):
    """What is minimised."""

    name: str = setting("adversarial-ce", "plain, adversarial-ce, trades or mart")
    inv_lambda: float = setting(6.0, "TRADES' 1/lambda, the factor of its KL")
    strength: float = setting(5.0, "MART's factor of its KL")

    def check(self) -> None:
        """Refuse what is not accepted."""
        check_entry("loss.name", self.name, LOSSES, offered(self))
        number_at_least("loss.inv_lambda", self.inv_lambda, 0)
        number_at_least("loss.strength", self.strength, 0)


@dataclass(frozen=True)
class AttackConfig(Checked):
    """The attack that training faces; evaluation uses its ball, too."""

    name: str = setting("pgd", "pgd, f-fgsm or fgsm")
    eps: float = setting(0.1, "radius of the ball around pixels in [0, 1], such as 0.1 or 8/255")
    norm: str = setting("linf", "norm that measures the ball: linf or l2")
    steps: int = setting(10, "iterations of pgd")
    step_size: float | None = setting(None, "length of a pgd step (auto: eps / 4)")
    start: str | None = setting(None, "where pgd starts: uniform, gaussian or zero (auto: the loss's own)")
    fraction: float = setting(1.0, "attack only this share of each batch, the heaviest samples")

    def check(self) -> None:
        """Refuse what is not accepted."""
        look_up("attack.name", self.name, training_attacks())
        number_at_least("attack.eps", self.eps, 0)
        look_up("attack.norm", self.norm, NORMS)
        if self.norm == "linf" and self.eps > 1:
            refuse("attack.eps", self.eps, "at most 1 with attack.norm = linf, as in 8/255: pixels are in [0, 1]")
        whole_at_least("attack.steps", self.steps, 1)
        if self.step_size is not None:
            number_at_least("attack.step_size", self.step_size, 0, above=True)
        if self.start is not None:
            look_up("attack.start", self.start, STARTS)
        if not 0 < number_at_least("attack.fraction", self.fraction, 0) <= 1:
            refuse("attack.fraction", self.fraction, "a number above 0 and at most 1")


@dataclass(frozen=True)
class SchemeConfig(Checked):
    """How samples are weighted, be it by a weight network."""

    name: str = setting("uniform", "uniform, gairat, wmmr, mail, non-parametric, learned or pretrained")
    preset: str = setting("paper", "settings of gairat, wmmr and mail: paper or official")
    burn_in: float | None = setting(None, "first share of epochs with uniform weights (auto: the preset's, else 0)")
    network: str | None = setting(None, "safetensors file of a weight network (or a run's folder), for pretrained")
    features: str = setting("multiclass-margin", "multiclass-margin, margin, adversarial-loss or loss-difference")
    margin_from: str = setting("clean", "where margins are taken: clean or adversarial")
    hidden: tuple[int, ...] = setting((128,), "widths of the weight network's hidden layers, as in 64,64")
    optimizer: str = setting("adamw", "mu's optimiser: adam, adamw or sgd")
    lr: float = setting(1e-3, "mu's learning rate, the paper's alpha")
    weight_decay: float = setting(1e-4, "mu's weight decay")

    def check(self) -> None:
        """Refuse what is not accepted."""
        look_up("scheme.name", self.name, SCHEMES)
        if self.name not in NETWORKED:
            check_entry("scheme.name", self.name, SCHEMES, offered(self))
        look_up("scheme.preset", self.preset, PRESETS)
        if self.burn_in is not None and number_at_least("scheme.burn_in", self.burn_in, 0) > 1:
            refuse("scheme.burn_in", self.burn_in, "a fraction of the epochs, from 0 to 1")
        if self.network is not None:
            optional_text("scheme.network", self.network)
        if self.name == "pretrained" and self.network is None:
            refuse("scheme.network", "auto", "a file when scheme.name is pretrained")
        if self.name != "pretrained" and self.network is not None:
            refuse("scheme.network", self.network, "auto unless scheme.name is pretrained")
        look_up("scheme.features", self.features, FEATURES)
        look_up("scheme.margin_from", self.margin_from, POINTS)
        if not isinstance(self.hidden, tuple):
            refuse("scheme.hidden", self.hidden, "whole numbers >= 1, such as 128 or 64,64")
        for width in self.hidden:
            whole_at_least("scheme.hidden", width, 1)
        look_up("scheme.optimizer", self.optimizer, META_OPTIMIZERS)
        number_at_least("scheme.lr", self.lr, 0)
        number_at_least("scheme.weight_decay", self.weight_decay, 0)

    @property
    def learns(self) -> bool:
        """Tell whether the scheme needs the meta set."""
        return hasattr(SCHEMES[self.name], "learn")

    def reads(self, loss: str) -> frozenset[str]:
        """Return which logits the weights depend on; of a pretrained network only its file can tell."""
        if self.name in HEURISTICS:
            return preset(self.name, loss, self.preset).scheme.reads
        return reads(self.features, self.margin_from) if self.name == "learned" else frozenset()


@dataclass(frozen=True)
class MetaConfig(Checked):
    """The reweighting half of a step, for schemes that learn."""

    loss: str | None = setting(None, "loss that mu descends on held-out data (auto: the training loss)")
    attack: str | None = setting(None, "attack on held-out data: pgd, f-fgsm or fgsm (auto: the training attack)")
    at: str = setting("theta~", "parameters that it attacks: theta~ (the look-ahead) or theta")
    every: int = setting(1, "steps between two meta updates")
    derivative: str = setting("exact", "directional derivative of line 6: exact or central")
    batch: int = setting(128, "held-out samples a step")

    def check(self) -> None:
        """Refuse what is not accepted."""
        if self.loss is not None:
            check_entry("meta.loss", self.loss, LOSSES, offered(LossConfig()))
        if self.attack is not None:
            look_up("meta.attack", self.attack, training_attacks())
        look_up("meta.at", self.at, META_POINTS)
        whole_at_least("meta.every", self.every, 1)
        look_up("meta.derivative", self.derivative, DERIVATIVES)
        whole_at_least("meta.batch", self.batch, 1)


@dataclass(frozen=True)
class OptimConfig(Checked):
    """The classifier's own optimisation: SGD as in the paper."""

    epochs: int = setting(100, "passes over the training samples")
    batch: int = setting(128, "training samples a step")
    lr: float = setting(0.1, "learning rate at its highest, the paper's beta")
    momentum: float = setting(0.9, "SGD's momentum")
    weight_decay: float = setting(2e-4, "SGD's weight decay")
    schedule: str = setting("piecewise", "piecewise (a tenth from 30 % and from 60 %), cosine or one-cycle")
    warmup: float | None = setting(None, "first share of the epochs, in which lr rises linearly from 0 (auto: none)")
    clip: float | None = setting(None, "largest norm of theta's gradient (auto: no clipping)")
    ema: float | None = setting(None, "decay of an average of theta, which is then judged and kept (auto: none)")

    def check(self) -> None:
        """Refuse what is not accepted."""
        whole_at_least("optim.epochs", self.epochs, 1)
        whole_at_least("optim.batch", self.batch, 2)
        number_at_least("optim.lr", self.lr, 0, above=True)
        if not 0 <= number_at_least("optim.momentum", self.momentum, 0) < 1:
            refuse("optim.momentum", self.momentum, "a number from 0 up to, but not including, 1")
        number_at_least("optim.weight_decay", self.weight_decay, 0)
        look_up("optim.schedule", self.schedule, SCHEDULES)
        if self.warmup is not None and not 0 < number_at_least("optim.warmup", self.warmup, 0) <= 1:
            refuse("optim.warmup", self.warmup, "a share of the epochs, above 0 and at most 1")
        if self.clip is not None:
            number_at_least("optim.clip", self.clip, 0, above=True)
        if self.ema is not None and not 0 < number_at_least("optim.ema", self.ema, 0) < 1:
            refuse("optim.ema", self.ema, "a number between 0 and 1, such as 0.999")


@dataclass(frozen=True)
class SelectConfig(Checked):
    """How the best epoch is chosen, on the *select* split alone."""

    every: int = setting(1, "epochs between two looks at the select split")
    steps: int = setting(10, "PGD iterations of that look")
    patience: int | None = setting(None, "looks without a new best PGD accuracy before stopping (auto: never stop)")

    def check(self) -> None:
        """Refuse what is not accepted."""
        whole_at_least("select.every", self.every, 1)
        whole_at_least("select.steps", self.steps, 1)
        if self.patience is not None:
            whole_at_least("select.patience", self.patience, 1)


@dataclass(frozen=True)
class ComputeConfig(Checked):
    """Where and how it is computed."""

    device: str | None = setting(None, "cpu, cuda, cuda:1, mps, ... (auto: a GPU if there is one)")
    precision: str | None = setting(None, "fp32 or bf16 (auto: fp32)")
    channels_last: bool | None = setting(None, "memory format of convolutions (auto: where it pays)")
    compile: bool = setting(False, "torch.compile the forward that attacks climb")
    threads: int | None = setting(None, "CPU threads (auto: PyTorch's own choice)")

    def check(self) -> None:
        """Refuse what is not accepted."""
        if self.device is not None:
            optional_text("compute.device", self.device)
        if self.precision is not None:
            look_up("compute.precision", self.precision, PRECISIONS)
        if self.channels_last is not None:
            truth("compute.channels_last", self.channels_last)
        truth("compute.compile", self.compile)
        if self.threads is not None and whole_at_least("compute.threads", self.threads, 1) > THREADS:
            refuse("compute.threads", self.threads, f"a whole number from 1 to {THREADS}")


@dataclass(frozen=True)
class GuardConfig(Checked):
    """What is watched while training."""

    overfitting: str = setting("switch", "catastrophic overfitting of one-step attacks: switch to PGD, report or off")
    drop: float = setting(0.2, "fall of PGD accuracy on select that counts as such, if one-step accuracy holds")
    min_ess: float = setting(
        0.1, "effective sample size, as a share of the batch, below which weights are said to collapse"
    )

    def check(self) -> None:
        """Refuse what is not accepted."""
        look_up("guard.overfitting", self.overfitting, OVERFITTING)
        if not 0 < number_at_least("guard.drop", self.drop, 0) <= 1:
            refuse("guard.drop", self.drop, "a number above 0 and at most 1")
        if number_at_least("guard.min_ess", self.min_ess, 0) > 1:
            refuse("guard.min_ess", self.min_ess, "a share from 0 (never warn) to 1")


@dataclass(frozen=True)
class LogConfig(Checked):
    """What is written beside the weights."""

    to: tuple[str, ...] = setting(("tensorboard",), "any of tensorboard, wandb, mlflow, as in tensorboard,wandb")
    weights_every: int = setting(1, "epochs between two rows of each sample's weight and margin (0: none)")
    checkpoint_minutes: float = setting(5.0, "minutes between two checkpoints within an epoch")
    checkpoint_steps: int = setting(0, "steps between two checkpoints within an epoch (0: minutes alone decide)")

    def check(self) -> None:
        """Refuse what is not accepted."""
        if not isinstance(self.to, tuple):
            refuse("log.to", self.to, f"names out of {', '.join(LOGGERS)}, or nothing")
        for name in self.to:
            look_up("log.to", name, LOGGERS)
        whole_at_least("log.weights_every", self.weights_every, 0)
        number_at_least("log.checkpoint_minutes", self.checkpoint_minutes, 0, above=True)
        whole_at_least("log.checkpoint_steps", self.checkpoint_steps, 0)


@dataclass(frozen=True)
class Config(Checked):
    """A training run."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    attack: AttackConfig = field(default_factory=AttackConfig)
    scheme: SchemeConfig = field(default_factory=SchemeConfig)
    meta: MetaConfig = field(default_factory=MetaConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    select: SelectConfig = field(default_factory=SelectConfig)
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)
    log: LogConfig = field(default_factory=LogConfig)
    seed: int = setting(0, "seed of everything random but the held-out splits")

    def check(self) -> None:
        """Refuse what is not accepted."""
        for part in fields(self):
            kind: Any = part.default_factory
            if not part.metadata and not isinstance(getattr(self, part.name), kind):
                refuse(part.name, getattr(self, part.name), f"a bilaw.config.{kind.__name__}")
        check_seed("seed", self.seed)
        loss, scheme = self.loss.name, self.scheme
        if loss == "plain" and scheme.name != "uniform":
            refuse("scheme.name", scheme.name, "uniform when loss.name is plain: there is no robust part to weigh")
        if scheme.name in HEURISTICS:
            preset(scheme.name, loss, scheme.preset)  # refuses a pair it has no settings for
        if self.attack.fraction < 1 and not scheme.reads(loss) <= {"clean"}:
            why = f"weights with scheme.name = {scheme.name} are known only after the attack"
            refuse("attack.fraction", self.attack.fraction, f"1 here: {why}")


def offered(part: LossConfig | AttackConfig | SchemeConfig) -> dict[str, Any]:
    """Return the settings of a part that an entry of its table may take, by the names it takes them by.

    >>> offered(LossConfig())
    {'inv_lambda': 6.0, 'strength': 5.0}
    """
    elsewhere = ("name", "fraction", "preset", "burn_in", "network")  # what is made of the entry, or chosen before
    return {f.name: getattr(part, f.name) for f in fields(part) if f.name not in elsewhere}


def training_attacks() -> dict[str, Make]:
    """Return the attacks that can be trained with: those that climb what the loss asks for, settings sufficing.

    >>> sorted(training_attacks())
    ['f-fgsm', 'fgsm', 'pgd']
    """
    known = {*(f.name for f in fields(AttackConfig)), "objective"}
    return {name: make for name, make in ATTACKS.items() if takes(make, "objective") and not lacks(make, known)}


def text(name: str, value: Any) -> None:
    """Refuse anything but a non-empty string that a file can hold."""
    if not isinstance(value, str) or not value or "\0" in value or not _is_unicode(value):
        refuse(name, value, "text, which is not empty, in Unicode and without NUL")


def optional_text(name: str, value: Any) -> None:
    """Refuse the word that stands for None in files, and what `text` refuses."""
    text(name, value)
    if value == "auto":
        refuse(name, value, "None for auto, or text that is not the word (a file of that name is ./auto)")


def truth(name: str, value: Any) -> None:
    """Refuse anything but true and false."""
    if not isinstance(value, bool):
        refuse(name, value, "true or false")


def check_seed(name: str, value: Any) -> None:
    """Refuse anything but a seed."""
    if whole_at_least(name, value, 0, most=math.inf) >= SEEDS:
        refuse(name, value, "a whole number from 0 to 2**63 - 1")


def _is_unicode(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)  # bytes that are no UTF-8
