"""What there is to do, and where each piece of it lies: a run folder for each (settings, seed), named by its settings.

RUN-FOLDER/             as `bilaw train --run` leaves it
RUN-FOLDER/evaluation   as `bilaw evaluate RUN-FOLDER` leaves it; other measures have folders of their own beside it
times-*.json            steps timed in turns
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bilaw.config import Config
from bilaw.evaluation.plan import SAMPLES
from bilaw.evaluation.store import read_result
from bilaw.evaluation.suites import USUAL
from bilaw.recipes.methods import names
from bilaw.recipes.protocol import Measure
from bilaw.runs import Run
from bilaw.settings import values_of

ASIDE = ("compute.", "log.", "data.root")  # where and how it is computed, and what is written down: not what it is


def key(config: Config) -> str:
    """Return a hash of the settings that make a run what it is; a new setting that is auto leaves it as it was.

    >>> from bilaw.config import ComputeConfig
    >>> key(Config(compute=ComputeConfig(threads=4))) == key(Config()) != key(Config(seed=1))
    True
    """
    held = {n: v for n, v in values_of(config).items() if v is not None and not n.startswith(ASIDE)}
    return digest(held)


def digest(held: object) -> str:
    """Return a short hash of what JSON can hold."""
    return hashlib.blake2b(json.dumps(held, sort_keys=True).encode(), digest_size=5).hexdigest()


def folder_of(config: Config) -> str:
    """Return the name of a run's folder, which says what it is: data, model, ball, method, seed, and a hash of all."""
    data, model, method = (re.sub(r"[^0-9A-Za-z.-]+", "-", part).strip("-.")[:40] for part in names(config))
    ball = f"{config.attack.norm}-{config.attack.eps:g}"
    return f"{data}-{model}-{ball}-{method}-seed{config.seed}-{key(config)}"


@dataclass(frozen=True)
class Train:
    """A run to be trained."""

    config: Config
    needs: str | None = None  # folder of the run whose weight network it takes

    @cached_property
    def folder(self) -> str:
        """Return the run's folder."""
        return folder_of(self.config)

    @cached_property
    def name(self) -> str:
        """Return what the task is called."""
        return self.folder

    @property
    def after(self) -> tuple[str, ...]:
        """Return the names of the tasks that come first."""
        return (self.needs,) if self.needs else ()

    def done(self, out: Path) -> bool:
        """Tell whether there is nothing left to do."""
        return Run(out / self.folder).finished()

    def real(self, out: Path) -> Config:
        """Return the settings with the path of the run that it needs."""
        if not self.needs:
            return self.config
        return replace(self.config, scheme=replace(self.config.scheme, network=str((out / self.needs).absolute())))


@dataclass(frozen=True)
class Evaluate:
    """A trained run to be measured; an attack NAME:FOLDER takes the weight network of another run."""

    train: Train
    measure: Measure

    @cached_property
    def folder(self) -> str:
        """Return the run's folder."""
        return self.train.folder

    @cached_property
    def name(self) -> str:
        """Return what the task is called."""
        return f"{self.folder}.{self.place}"

    @cached_property
    def place(self) -> str:
        """Return the folder's name in that of the run: of what `bilaw evaluate` does by itself, the usual one."""
        if self.measure == Measure(USUAL, SAMPLES):
            return "evaluation"
        return f"evaluation-{digest(self.measure._asdict())}"

    @property
    def after(self) -> tuple[str, ...]:
        """Return the names of the tasks that come first."""
        others = [attack.partition(":")[2] for attack in self.measure.attacks if ":" in attack]
        return (self.train.name, *others)

    def done(self, out: Path) -> bool:
        """Tell whether there is nothing left to do."""
        return self.result(out) is not None

    def result(self, out: Path) -> dict[str, Any] | None:
        """Return what was measured; None while it is not, or where that cannot be read."""
        try:
            return read_result(out / self.folder / self.place)
        except ValueError:
            return None  # whoever does the task finds out why

    def attacks(self, out: Path) -> list[str]:
        """Return the attacks with the paths of the runs they take weight networks from."""
        parts = [attack.partition(":") for attack in self.measure.attacks]
        return [f"{name}:{(out / other).absolute()}" if other else name for name, _, other in parts]


@dataclass(frozen=True)
class Time:
    """Steps of several runs, to be timed in turns."""

    configs: tuple[Config, ...]

    @cached_property
    def name(self) -> str:
        """Return what the task is called."""
        return f"times-{digest([key(replace(config, seed=0)) for config in self.configs])}"

    @property
    def folder(self) -> str:
        """Return the same: it has no folder of its own."""
        return self.name

    @property
    def after(self) -> tuple[str, ...]:
        """Return that nothing comes first."""
        return ()

    def file(self, out: Path) -> Path:
        """Return where the times are."""
        return out / f"{self.name}.json"

    def done(self, out: Path) -> bool:
        """Tell whether there is nothing left to do."""
        return self.file(out).is_file()


Task = Train | Evaluate | Time
