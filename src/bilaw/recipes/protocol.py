"""How long and on how much each scale trains and measures: decided here alone, and for all methods alike."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from bilaw.config import AttackConfig, Config, DataConfig, LogConfig, MetaConfig, ModelConfig, OptimConfig, SelectConfig
from bilaw.errors import refuse
from bilaw.settings import number_or_fraction

GREY = ("mnist", "fashion-mnist", "digits")
SCALES = {
    "smoke": "minutes for every table at once: does it all run? No figure of it is a result",
    "small": "the protocol shrunk for a laptop: fewer epochs, the schedule's shares kept",
    "full": "the paper's protocol: 100 epochs, full data",
}


class Setting(NamedTuple):
    """Where a column of a table is measured: data, model, and the ball."""

    data: str
    model: str
    norm: str
    eps: float

    def __str__(self) -> str:
        return f"{self.data}/{self.model}/{self.norm}/{self.eps:g}"

    @classmethod
    def parse(cls, text: str, option: str = "setting") -> Setting:
        """Return the setting that is written DATA/MODEL/NORM/EPS.

        >>> Setting.parse("mnist/fc1/l2/0.3")
        Setting(data='mnist', model='fc1', norm='l2', eps=0.3)
        """
        parts = text.split("/", 3)
        if len(parts) < 4 or not all(parts):
            refuse(option, text, "DATA/MODEL/NORM/EPS, such as mnist/tiny-cnn/linf/0.1")
        data, model, norm, eps = parts
        return cls(data, model, norm, number_or_fraction(option, eps))


class Measure(NamedTuple):
    """One evaluation of a run: attacks by name, and on how many samples."""

    attacks: tuple[str, ...]
    samples: int | None  # None: all
    audit: int = 200


class Protocol(NamedTuple):
    """What a scale makes of a setting."""

    base: Config  # of every method's recipe
    broad: Measure  # clean and PGD accuracy
    strong: Measure  # AutoAttack, on fewer samples, and what is compared with it there
    attacks: dict[str, str]  # what each figure of a table is measured with
    words: str  # how it differs from the paper's, in a line


def protocol(scale: str, setting: Setting) -> Protocol:
    """Return how a setting is trained and measured at a scale.

    Whatever keeps training stable (learning rate, warm-up, clipping) belongs into the optimisation here, where it is
    the same for every method.
    """
    base = Config(
        data=DataConfig(name=setting.data),
        model=ModelConfig(name=setting.model),
        attack=AttackConfig(eps=setting.eps, norm=setting.norm),
        log=LogConfig(to=()),
    )
    return {"full": _full, "small": _small, "smoke": _smoke}[scale](base)


BROAD, STRONG = Measure(("clean", "pgd-20"), None), Measure(("clean", "pgd-20", "autoattack"), 1000)
ATTACKS = {"clean": "clean", "pgd": "pgd-20", "aa": "autoattack"}


def _full(base: Config) -> Protocol:
    return Protocol(base, BROAD, STRONG, ATTACKS, "100 epochs, full data; AutoAttack on 1,000 test samples")


def _small(base: Config) -> Protocol:
    if base.data.name in GREY:
        words = "20 epochs of the paper's 100, lr 0.05 for its 0.1; AutoAttack on 1,000 test samples"
        return Protocol(replace(base, optim=OptimConfig(epochs=20, lr=0.05)), BROAD, STRONG, ATTACKS, words)
    base = replace(base, data=replace(base.data, train=5000), optim=OptimConfig(epochs=10))
    words = "10 epochs of the paper's 100, on 5,000 training samples; 1,000 test samples, AutoAttack on 200 of them"
    return Protocol(base, BROAD._replace(samples=1000), STRONG._replace(samples=200), ATTACKS, words)


def _smoke(base: Config) -> Protocol:
    base = replace(
        base,
        data=replace(base.data, train=256, meta=64, select=64),
        attack=replace(base.attack, steps=2),
        meta=MetaConfig(batch=32),
        optim=OptimConfig(epochs=4, batch=32, schedule="cosine"),
        select=SelectConfig(steps=2),
    )
    words = "4 epochs on 256 images of digits, PGD-2; PGD-5 and CW-5 stand for PGD-20 and AutoAttack"
    attacks = {"clean": "clean", "pgd": "pgd-5", "aa": "cw-5"}
    once = Measure(tuple(attacks.values()), 50, audit=0)
    return Protocol(base, once, once, attacks, words)
