"""A run is a folder that says everything; this module alone knows the names in it.

config.toml          the effective settings: `bilaw train --config` repeats the run with them
environment.json     versions, device, git state, command
status.json          where it stands
splits.safetensors   places in the training set: train, meta, select
metrics.jsonl        a line an epoch, and events; the same to the byte whenever the run is repeated
timing.jsonl         a line an epoch: what is not
weights.f16          a row an epoch: (value, sample) in float16; weights.json says which values
checkpoints/         the last two
good.safetensors     the one to roll back to, if a one-step attack is overfitted to
best.safetensors     the classifier's best epoch on *select*, as a state_dict
omega.safetensors    its weight network, where one was learned
tensorboard/         event files
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.torch import load_file
from torch import Tensor

from bilaw import settings
from bilaw.config import Config
from bilaw.errors import refuse
from bilaw.files import append, explained, json_line, write_tensors, write_text

WEIGHT_VALUES = ("weight", "clean margin", "adversarial margin")  # of a sample, in an epoch
GROWING = ("metrics.jsonl", "timing.jsonl", "weights.f16")  # a checkpoint notes their lengths


class Status(NamedTuple):
    """Where a run stands."""

    state: str  # running, finished, interrupted, failed, or killed: said to run, but its process is gone
    epoch: int  # epochs done
    epochs: int
    best: dict[str, Any] | None  # the best epoch's metrics
    updated: float  # seconds since 1970
    pid: int  # of the process at work on it, and the machine that runs it
    host: str


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
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            try:
                made = cls(draft)
                made.checkpoints.mkdir()
                write_text(made.config_file, settings.to_toml(config))
                write_text(draft / "environment.json", json.dumps(environment, indent=1) + "\n")
                write_tensors(draft / "splits.safetensors", splits, {})
                made.set_status("running", 0, config.optim.epochs, None)
                made.describe_weights(len(splits["train"]))
                draft.chmod(0o755)
                if path.exists():
                    path.rmdir()  # check_new saw that it is empty
                draft.rename(path)
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
    def events(self) -> Path:
        """Return the folder of TensorBoard's event files."""
        return self.path / "tensorboard"

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
        held = json.loads((self.path / "status.json").read_text())
        state = held["state"]
        if state == "running" and held["host"] == socket.gethostname() and not _alive(held["pid"]):
            state = "killed"
        return Status(state, held["epoch"], held["epochs"], held["best"], held["updated"], held["pid"], held["host"])

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a line to the metrics."""
        append(self.path / "metrics.jsonl", json_line(dict(values)))

    def add_timing(self, values: Mapping[str, Any]) -> None:
        """Add a line to the timings."""
        append(self.path / "timing.jsonl", json_line(dict(values)))

    def metrics(self) -> list[dict[str, Any]]:
        """Return the lines of the metrics: epochs, and events, which have an "event"."""
        return _lines(self.path / "metrics.jsonl")

    def epochs(self) -> list[dict[str, Any]]:
        """Return the lines of the epochs that count: none that was rolled back."""
        held: list[dict[str, Any]] = []
        for line in self.metrics():
            if "back_to" in line:
                held = [epoch for epoch in held if epoch["epoch"] <= line["back_to"]]
            elif "event" not in line:
                held.append(line)
        return held

    def timing(self) -> list[dict[str, Any]]:
        """Return the lines of the timings."""
        return _lines(self.path / "timing.jsonl")

    def describe_weights(self, samples: int) -> None:
        """Say what a row of the weight history is."""
        order = "train of splits.safetensors"
        about = {"dtype": "float16", "values": WEIGHT_VALUES, "samples": samples, "order": order}
        write_text(self.path / "weights.json", json.dumps(about, indent=1) + "\n")

    def add_weights(self, epoch: int, row: np.ndarray[Any, np.dtype[np.float16]]) -> None:
        """Add an epoch's row (value, sample) to the weight history, after its number."""
        append(self.path / "weights.f16", np.float32(epoch).tobytes() + row.astype("<f2").tobytes())

    def weights(self) -> tuple[tuple[str, ...], list[int], np.ndarray[Any, np.dtype[np.float16]]]:
        """Return the weight history: the names of the values, the epochs, and (epoch, value, sample) in float16.

        Samples are in the order of `splits()["train"]`; one that an epoch left out is NaN.
        """
        about = json.loads((self.path / "weights.json").read_text())
        values, n = tuple(about["values"]), about["samples"]
        file = self.path / "weights.f16"
        if not file.exists() or not file.stat().st_size:
            return values, [], np.empty((0, len(values), n), dtype=np.float16)
        row = np.dtype([("epoch", "<f4"), ("row", "<f2", (len(values), n))])
        held = np.memmap(file, dtype=row, mode="r", shape=(file.stat().st_size // row.itemsize,))
        last = {int(epoch): place for place, epoch in enumerate(held["epoch"])}  # rolled back epochs come again
        return values, list(last), held["row"][list(last.values())]

    def lengths(self) -> dict[str, int]:
        """Return how long the files are that grow."""
        return {name: (self.path / name).stat().st_size for name in GROWING if (self.path / name).exists()}

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Cut the files that grow back to what they were when a checkpoint was taken."""
        for name in GROWING:
            file, length = self.path / name, lengths.get(name, 0)
            held = file.stat().st_size if file.exists() else 0
            if held < length:
                refuse(str(file), f"{held} bytes", f"the {length} bytes it had at the checkpoint, or more")
            if held > length:
                with explained(file), file.open("rb+") as out:
                    out.truncate(length)

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
    found = [path.parent for path in folder.glob("*/config.toml") if not path.parent.name.startswith(".")]
    return [Run(path) for path in sorted(found, key=lambda path: ((path / "config.toml").stat().st_mtime, path.name))]


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
