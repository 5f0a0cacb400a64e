"""Who keeps what a run leaves behind: its folder, or memory for a `fit` without one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from bilaw import sealed
from bilaw.runs import Run
from bilaw.training import checkpoint
from bilaw.training.loggers import Logger, open_loggers
from bilaw.training.watch import Epoch

Tensors = Mapping[str, Tensor]
resource: Any = importlib.import_module("resource") if sys.platform != "win32" else None  # a Unix module


class Keeper(Protocol):
    """Takes what happens; gives back the best weights and the history."""

    @property
    def path(self) -> Path | None:
        """Return the run's folder, if there is one."""
        ...

    def open_loggers(self, t: int) -> None:
        """Begin to pass metrics on, from global step `t`."""
        ...

    def epoch(self, t: int, epoch: Epoch, curve: Tensor, timing: Mapping[str, float], weights: Tensor | None) -> None:
        """Keep an epoch: its summary, its steps' (loss, ESS), its timing, its rows of the weight history."""
        ...

    def event(self, values: Mapping[str, Any]) -> None:
        """Keep something that happened between two epochs."""
        ...

    def back_to(self, epoch: int, t: int, values: Mapping[str, Any]) -> None:
        """Keep that the epochs after this one, which ended at step `t`, do not count any more, and why."""
        ...

    def best(self, weights: Tensors, omega: Tensors, about: Mapping[str, str]) -> None:
        """Keep the best weights so far, and the weight network that goes with them."""
        ...

    def best_weights(self) -> tuple[Tensors, Tensors]:
        """Return the best weights, and those of the weight network, if there is one."""
        ...

    def history(self) -> list[Epoch]:
        """Return the epochs."""
        ...

    def checkpoint(self, tensors: Tensors, facts: Mapping[str, Any]) -> Path | None:
        """Keep a checkpoint, and return where."""
        ...

    def keep_good(self, tensors: Tensors, facts: Mapping[str, Any]) -> None:
        """Keep a checkpoint apart, to roll back to."""
        ...

    def good(self) -> tuple[Tensors, Mapping[str, Any]]:
        """Return it."""
        ...

    def status(self, state: str, epoch: int, epochs: int, best: Epoch | None) -> None:
        """Say where the run stands."""
        ...

    def close(self) -> None:
        """End."""
        ...


class Memory:
    """Keeps the history and the best weights, and no files."""

    path: Path | None = None

    def __init__(self) -> None:
        self._history: list[Epoch] = []
        self._best: tuple[Tensors, Tensors] = ({}, {})
        self._good: tuple[Tensors, Mapping[str, Any]] = ({}, {})

    def open_loggers(self, t: int) -> None:
        """Open none."""

    def epoch(self, t: int, epoch: Epoch, curve: Tensor, timing: Mapping[str, float], weights: Tensor | None) -> None:
        """Keep the summary."""
        self._history.append(epoch)

    def event(self, values: Mapping[str, Any]) -> None:
        """Let it pass: whoever watches was told."""

    def back_to(self, epoch: int, t: int, values: Mapping[str, Any]) -> None:
        """Forget them."""
        self._history = [kept for kept in self._history if kept.epoch <= epoch]

    def best(self, weights: Tensors, omega: Tensors, about: Mapping[str, str]) -> None:
        """Keep copies of the best weights."""
        self._best = _copied(weights), _copied(omega)

    def best_weights(self) -> tuple[Tensors, Tensors]:
        """Return them."""
        return self._best

    def history(self) -> list[Epoch]:
        """Return the epochs."""
        return list(self._history)

    def checkpoint(self, tensors: Tensors, facts: Mapping[str, Any]) -> None:
        """Keep none."""

    def keep_good(self, tensors: Tensors, facts: Mapping[str, Any]) -> None:
        """Keep copies."""
        self._good = _copied(tensors), facts

    def good(self) -> tuple[Tensors, Mapping[str, Any]]:
        """Return them."""
        return self._good

    def status(self, state: str, epoch: int, epochs: int, best: Epoch | None) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Do nothing."""


class Folder:
    """Keeps everything in the run's folder, and passes metrics on to the loggers it names."""

    def __init__(self, run: Run) -> None:
        self.run, self.path, self._lock = run, run.path, run.hold()
        self._loggers: list[Logger] = []

    def open_loggers(self, t: int) -> None:
        """Open those that the run's settings name."""
        self._loggers = open_loggers(self.run, t)

    def epoch(self, t: int, epoch: Epoch, curve: Tensor, timing: Mapping[str, float], weights: Tensor | None) -> None:
        """Append to the growing files, weights first: an epoch with a line in the metrics has everything."""
        if weights is not None:
            self.run.add_weights(weights.numpy())
        self.run.add_timing({"epoch": epoch.epoch, **timing})
        self.run.add({"t": t, **epoch._asdict()})
        self._log(t, epoch, curve, timing)

    def event(self, values: Mapping[str, Any]) -> None:
        """Append a line to the metrics."""
        self.run.add(values)

    def back_to(self, epoch: int, t: int, values: Mapping[str, Any]) -> None:
        """Append a line to the metrics, what it takes back stays above it; loggers begin anew from there."""
        self.run.add({"t": t, **values, "back_to": epoch})
        self._close_loggers()
        self.open_loggers(t)

    def best(self, weights: Tensors, omega: Tensors, about: Mapping[str, str]) -> None:
        """Write the files that users load."""
        if omega:
            self.run.save_omega(omega, about)
        self.run.save_best(weights, about)

    def best_weights(self) -> tuple[Tensors, Tensors]:
        """Read them."""
        return load_file(self.run.best), load_file(self.run.omega) if self.run.omega.exists() else {}

    def history(self) -> list[Epoch]:
        """Read the epochs out of the metrics."""
        return [epoch_of(line) for line in self.run.epochs()]

    def checkpoint(self, tensors: Tensors, facts: Mapping[str, Any]) -> Path:
        """Write it, with the lengths of the files that grow: a resumed run cuts off what came after."""
        return checkpoint.save(self.run.checkpoints, tensors, {**facts, "lengths": self.run.lengths()})

    def keep_good(self, tensors: Tensors, facts: Mapping[str, Any]) -> None:
        """Write it beside the others, under a name that is never dropped."""
        sealed.write(self.run.good, tensors, facts)

    def good(self) -> tuple[Tensors, Mapping[str, Any]]:
        """Read it."""
        held = sealed.read(self.run.good)
        return held.tensors, held.facts

    def status(self, state: str, epoch: int, epochs: int, best: Epoch | None) -> None:
        """Write it."""
        self.run.set_status(state, epoch, epochs, best._asdict() if best else None)

    def close(self) -> None:
        """End the loggers, and let go of the folder."""
        with suppress(OSError):  # all they were given is written; on a full disk, the first error is the one to tell
            self._close_loggers()
        self._lock.close()

    def _close_loggers(self) -> None:
        for logger in self._loggers:
            logger.close()
        self._loggers = []

    def _log(self, t: int, epoch: Epoch, curve: Tensor, timing: Mapping[str, float]) -> None:
        steps = len(curve)
        shown = range(0, steps, max(1, steps // 50))  # some fifty points an epoch draw a smooth enough curve
        names = ("step/loss", "step/ess")
        points = [(t - steps + step + 1, dict(zip(names, curve[step].tolist(), strict=True))) for step in shown]
        values = {f"select/{name}": getattr(epoch, name) for name in ("clean", "robust", "one_step")}
        values |= {"epoch/lr": epoch.lr, "epoch/loss": epoch.loss, "epoch/ess": epoch.ess}
        values |= {f"time/{name}": value for name, value in timing.items()}
        points.append((t, {name: value for name, value in values.items() if value == value}))
        for logger in self._loggers:
            logger.log(points)


def _copied(tensors: Tensors) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in tensors.items()}


def epoch_of(line: Mapping[str, Any]) -> Epoch:
    """Return the epoch that a line of the metrics tells of."""
    values: dict[str, Any] = {name: np.nan if line[name] is None else line[name] for name in Epoch._fields}
    return Epoch(**values)


def peak_mib(device: torch.device) -> float:
    """Return the most memory this process has held so far: the device's on a GPU, resident otherwise."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if resource is None:
        return float("nan")
    most: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10
