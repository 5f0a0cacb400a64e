"""A run is a folder that says everything; this module alone knows the names in it.

config.toml          the effective settings: `bilaw train --config` repeats the run with them
environment.json     versions, device, git state, command
status.json          where it stands
splits.safetensors   places in the training set: train, meta, select
metrics.jsonl        a line an epoch, and events; the same to the byte whenever the run is repeated
timing.jsonl         a line an epoch: what is not
weights.f16          for each epoch of the metrics, in their order: (value, sample) in float16, as weights.json says
checkpoints/         the last two
good.safetensors     the one to roll back to, if a one-step attack is overfitted to
best.safetensors     the classifier's best epoch on *select*, as a state_dict
omega.safetensors    its weight network, where one was learned
tensorboard/         event files
evaluation/          what `bilaw evaluate` found out (evaluation/store.py knows the names in it)
analysis/            what `bilaw report` found out (analysis/probe.py knows the names in it)
loggers.json         how Weights & Biases and MLflow call the run, so that a resumed one goes on there
lock                 held by the process at work on the run, and let go by the system when that ends
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors.torch import load_file
from torch import Tensor

from bilaw import settings
from bilaw.config import NETWORKED, Config
from bilaw.errors import refuse
from bilaw.files import PART, append, explained, json_line, settle, write_tensors, write_text
from bilaw.status import REMEDY, WRITTEN, Status, locked, read, read_json, read_lines

WEIGHT_VALUES = ("weight", "clean margin", "adversarial margin")  # of a sample, in an epoch
ADVERSARIAL_WEIGHT = "adversarial weight"  # and of runs with a weight network, what it would give the adversarial x
GROWING = ("metrics.jsonl", "timing.jsonl", "weights.f16")  # a checkpoint notes their lengths


class Run:
    """One run's folder."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def create(
        cls, path: Path | str, config: Config, environment: Mapping[str, Any], splits: Mapping[str, Tensor]
    ) -> Run:
        """Make the folder, with all that is known before the first step; it appears whole or not at all."""
        path = Path(path)
        check_new(path)
        with explained(path):
            home = path.resolve()  # a link stays, and what it points to is filled
            home.parent.mkdir(parents=True, exist_ok=True)
            beside = not home.exists() or os.access(home.parent, os.W_OK)
            draft = (home.parent if beside else home) / f".{home.name}.{secrets.token_hex(4)}"
            try:
                made = cls(draft)
                made.checkpoints.mkdir(parents=True)
                for name in (*GROWING, "lock"):
                    (draft / name).touch()
                write_text(made.config_file, settings.to_toml(config))
                write_text(draft / "environment.json", json.dumps(environment, indent=1) + "\n")
                made.set_splits(splits)
                made.set_status("running", 0, config.optim.epochs, None)
                made.describe_weights(len(splits["train"]), config.scheme.name in NETWORKED)
                settle(draft, home, last=made.config_file.name)  # which makes the folder a run
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        return cls(path)

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Return the run in an existing folder."""
        run = cls(path)
        if not run.config_file.is_file():
            hint = "; `bilaw runs` lists those there are"
            refuse("run", str(path), f"the folder of a run, with a {run.config_file.name} in it{hint}")
        return run

    @property
    def config_file(self) -> Path:
        """Return the file of the effective settings."""
        return self.path / "config.toml"

    @property
    def checkpoints(self) -> Path:
        """Return the folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def good(self) -> Path:
        """Return the file of the checkpoint to roll back to."""
        return self.path / "good.safetensors"

    @property
    def best(self) -> Path:
        """Return the file of the best weights."""
        return self.path / "best.safetensors"

    @property
    def omega(self) -> Path:
        """Return the file of the weight network."""
        return self.path / "omega.safetensors"

    @property
    def evaluation(self) -> Path:
        """Return the folder of the run's evaluation."""
        return self.path / "evaluation"

    @property
    def analysis(self) -> Path:
        """Return the folder of what reports had to compute."""
        return self.path / "analysis"

    @property
    def events(self) -> Path:
        """Return the folder of TensorBoard's event files."""
        return self.path / "tensorboard"

    @property
    def _lock_file(self) -> Path:
        return self.path / "lock"

    def config(self) -> Config:
        """Return the effective settings."""
        return settings.from_toml(self.config_file.read_text(encoding="utf-8"))

    def environment(self) -> dict[str, Any]:
        """Return versions, device, git state and command."""
        held: dict[str, Any] = json.loads((self.path / "environment.json").read_text())
        return held

    def splits(self) -> dict[str, Tensor]:
        """Return the places of the train, meta and select samples in the training set."""
        held: dict[str, Tensor] = load_file(self.path / "splits.safetensors")
        return held

    def set_splits(self, splits: Mapping[str, Tensor]) -> None:
        """Write them."""
        write_tensors(self.path / "splits.safetensors", splits, {})

    def set_status(self, state: str, epoch: int, epochs: int, best: Mapping[str, Any] | None) -> None:
        """Say where the run stands."""
        status = {
            "state": state,
            "epoch": epoch,
            "epochs": epochs,
            "best": dict(best) if best else None,
            "updated": time.time(),
            "pid": os.getpid(),
            "host": socket.gethostname(),
        }
        write_text(self.path / "status.json", json_line(status).decode())

    def status(self) -> Status:
        """Return where the run stands."""
        held = read(self.path / "status.json")
        if held.state == "running" and self._lock_file.exists():
            with self._lock_file.open("rb") as lock:
                return held._replace(state="killed" if locked(lock, shared=True) else "running")
        return held._replace(state="killed") if held.state == "running" else held

    def finished(self) -> bool:
        """Tell whether the run has come to its end; one that cannot say so has not."""
        try:
            return self.status().state == "finished"
        except (ValueError, OSError):
            return False  # the status is written anew by whoever goes on

    def hold(self) -> IO[bytes]:
        """Return the lock of who works on the run, to be closed at the end; no two have it at a time."""
        with explained(self._lock_file):
            lock = self._lock_file.open("ab")
        if not locked(lock, shared=False):
            lock.close()
            who = "another process"
            with suppress(ValueError, OSError):
                who = "process {0.pid} on {0.host}".format(self.status())
            refuse("run", str(self.path), f"a run that nobody is at work on; {who} is")
        return lock

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a line to the metrics."""
        append(self.path / "metrics.jsonl", json_line(dict(values)))

    def add_timing(self, values: Mapping[str, Any]) -> None:
        """Add a line to the timings."""
        append(self.path / "timing.jsonl", json_line(dict(values)))

    def metrics(self) -> list[dict[str, Any]]:
        """Return the lines of the metrics: epochs, and events, which have an "event"."""
        return read_lines(self.path / "metrics.jsonl")

    def epochs(self) -> list[dict[str, Any]]:
        """Return the lines of the epochs that count: none that was rolled back."""
        return [line for _, line in self._counting()]

    def _counting(self, every: int = 1) -> list[tuple[int, dict[str, Any]]]:
        """Return them, or of every so many, each after its place among all such lines, rolled back or not."""
        held: list[tuple[int, dict[str, Any]]] = []
        place = 0
        for line in self.metrics():
            if "back_to" in line:
                held = [kept for kept in held if kept[1]["epoch"] <= line["back_to"]]
            elif "event" not in line and line["epoch"] % every == 0:
                held.append((place, line))
                place += 1
        return held

    def timing(self) -> list[dict[str, Any]]:
        """Return the lines of the timings."""
        return read_lines(self.path / "timing.jsonl")

    def describe_weights(self, samples: int, networked: bool) -> None:
        """Say what a row of the weight history is."""
        order = "train of splits.safetensors"
        values = (*WEIGHT_VALUES, ADVERSARIAL_WEIGHT) if networked else WEIGHT_VALUES
        about = {"dtype": "float16", "values": values, "samples": samples, "order": order}
        write_text(self.path / "weights.json", json.dumps(about, indent=1) + "\n")

    def add_weights(self, row: np.ndarray[Any, np.dtype[np.float16]]) -> None:
        """Add an epoch's (value, sample) to the weight history, before the epoch's line in the metrics."""
        append(self.path / "weights.f16", row.astype("<f2").tobytes())

    def weights(self) -> tuple[tuple[str, ...], list[int], np.ndarray[Any, np.dtype[np.float16]]]:
        """Return the weight history: the names of the values, the epochs, and (epoch, value, sample) in float16.

        Samples are in the order of `splits()["train"]`; one that an epoch left out is NaN.
        """
        about = json.loads((self.path / "weights.json").read_text())
        values, n, every = tuple(about["values"]), about["samples"], self.config().log.weights_every
        kept = self._counting(every) if every else []
        if not kept:
            return values, [], np.empty((0, len(values), n), dtype=np.float16)
        places = [place for place, _ in kept]
        shape = (places[-1] + 1, len(values), n)
        rows = np.memmap(self.path / "weights.f16", dtype="<f2", mode="r", shape=shape)[places]
        return values, [line["epoch"] for _, line in kept], np.asarray(rows)

    def lengths(self) -> dict[str, int]:
        """Return how long the files are that grow."""
        paths = {name: self.path / name for name in GROWING}
        return {name: path.stat().st_size if path.is_file() else 0 for name, path in paths.items()}

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Cut the files that grow back to what they were when a checkpoint was taken; drop what was half written."""
        for name, held in self.lengths().items():
            if held < lengths.get(name, 0):
                whole = f"the {lengths[name]} it had at the checkpoint, or more: {REMEDY}"
                refuse(str(self.path / name), f"{held} bytes", whole)
        with explained(self.path):
            for name in GROWING:
                (self.path / name).touch()
                os.truncate(self.path / name, lengths.get(name, 0))
            for folder in (self.path, self.checkpoints):
                for part in folder.glob(f".*{PART}"):
                    part.unlink()

    def logger_id(self, logger: str, new: Callable[[], str]) -> tuple[str, bool]:
        """Return how a logger calls this run, and whether it knows it already: a resumed run goes on there."""
        file = self.path / "loggers.json"
        held: dict[str, str] = read_json(file) if file.exists() else {}
        if not isinstance(held, dict):
            refuse(str(file), held, f"{WRITTEN}; without it, loggers begin anew")
        known = logger in held
        if not known:
            held[logger] = new()
            write_text(file, json.dumps(held, indent=1) + "\n")
        return held[logger], known

    def save_best(self, weights: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
        """Write the best weights."""
        write_tensors(self.best, weights, about)

    def save_omega(self, weights: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
        """Write the weight network."""
        write_tensors(self.omega, weights, about)


def check_new(path: Path) -> None:
    """Refuse a folder that already holds something."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        is_run = (path / "config.toml").is_file()
        hint = f"; to go on with that run: bilaw train --resume {path}" if is_run else ""
        refuse("run", str(path), f"a new or an empty folder{hint}")


def find(folder: Path | str) -> list[Run]:
    """Return the runs in `folder` or, where it is itself a run, that one; oldest first."""
    folder = Path(folder)
    if (folder / "config.toml").is_file():
        return [Run(folder)]
    found = [path for path in folder.glob("*/config.toml") if path.is_file() and not path.parent.name.startswith(".")]
    return [Run(path.parent) for path in sorted(found, key=lambda path: (path.stat().st_mtime, path.parent.name))]
