"""Where metrics go beside the run folder's own files: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol
from uuid import uuid4

from bilaw.errors import refuse
from bilaw.files import explained
from bilaw.runs import Run
from bilaw.settings import values_of

PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}

Points = Sequence[tuple[int, Mapping[str, float]]]  # named numbers, each at a global step, in order


class Logger(Protocol):
    """Takes an epoch's numbers at a time."""

    def log(self, points: Points) -> None:
        """Write them."""
        ...

    def close(self) -> None:
        """Flush and end."""
        ...


class TensorBoard:
    """Event files in the run's folder; what was written after the step that a run goes on from is purged.

    tensorboardX's SummaryWriter is not used: its thread dies of a full disk without a word to anyone, and leaves the
    training waiting for it.
    """

    def __init__(self, run: Run, t: int, config: Mapping[str, Any]) -> None:
        self.path = run.events
        events = _package("tensorboard", "event_file_writer")
        self.protos = _package("tensorboard", "proto.event_pb2"), _package("tensorboard", "proto.summary_pb2")
        with explained(self.path):
            self.path.mkdir(exist_ok=True)
            # A file each time, also twice within the second that its name tells.
            self.writer = events.EventsWriter(str(self.path / "events"), f".{len(list(self.path.iterdir()))}")
            event = self.protos[0]
            self.writer.write_event(event.Event(step=t + 1, session_log=event.SessionLog(status="START")))

    def log(self, points: Points) -> None:
        """Write scalars, and wait until they are on the disk."""
        event, summary = self.protos
        with explained(self.path):
            for t, values in points:
                scalars = [summary.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
                self.writer.write_event(event.Event(step=t, summary=summary.Summary(value=scalars)))
            self.writer.flush()

    def close(self) -> None:
        """Flush and end."""
        self.writer.close()


class Wandb:
    """A Weights & Biases run named after the folder; a resumed run goes on in the same one.

    Steps are numbers like the others, not its own counter, which could not go back after a roll back.
    """

    def __init__(self, run: Run, t: int, config: Mapping[str, Any]) -> None:
        name, _ = run.logger_id("wandb", lambda: uuid4().hex)
        wandb = _package("wandb")
        self.run = wandb.init(dir=str(run.path), id=name, name=run.path.name, resume="allow", config=dict(config))
        self.run.define_metric("*", step_metric="step")

    def log(self, points: Points) -> None:
        """Write scalars."""
        for t, values in points:
            self.run.log({**values, "step": t})

    def close(self) -> None:
        """Flush and end."""
        self.run.finish()


class MLflow:
    """An MLflow run named after the folder; a resumed run goes on in the same one."""

    def __init__(self, run: Run, t: int, config: Mapping[str, Any]) -> None:
        self.mlflow = _package("mlflow")
        name, known = run.logger_id("mlflow", lambda: str(self.mlflow.start_run(run_name=run.path.name).info.run_id))
        if known:
            self.mlflow.start_run(run_id=name)
        else:
            self.mlflow.log_params(dict(config))

    def log(self, points: Points) -> None:
        """Write scalars."""
        for t, values in points:
            self.mlflow.log_metrics(dict(values), step=t)

    def close(self) -> None:
        """Flush and end."""
        self.mlflow.end_run()


KINDS: dict[str, Callable[[Run, int, Mapping[str, Any]], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "mlflow": MLflow,
}


def check_installed(names: tuple[str, ...]) -> None:
    """Refuse loggers whose package is not there, before anything starts."""
    for name in names:
        if find_spec(PACKAGES[name]) is None:
            refuse("log.to", name, f"loggers whose package is installed: pip install {PACKAGES[name]}")


def open_loggers(run: Run, t: int) -> list[Logger]:
    """Return the loggers that the run's settings name, from global step `t` on."""
    config = run.config()
    return [KINDS[name](run, t, values_of(config)) for name in config.log.to]


def _package(name: str, *part: str) -> Any:
    return importlib.import_module(".".join((PACKAGES[name], *part)))
