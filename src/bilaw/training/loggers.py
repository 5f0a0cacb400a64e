"""Where metrics go beside the run folder's own files: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from bilaw.errors import refuse
from bilaw.runs import Run
from bilaw.settings import values_of

PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}


class Logger(Protocol):
    """Takes named numbers at a step."""

    def log(self, t: int, values: Mapping[str, float]) -> None:
        """Write `values` at global step `t`."""
        ...

    def close(self) -> None:
        """Flush and end."""
        ...


class TensorBoard:
    """Event files in the run's folder; what a killed run wrote after its checkpoint is purged."""

    def __init__(self, run: Run, t: int, config: Mapping[str, Any]) -> None:
        self.writer = _package("tensorboard").SummaryWriter(str(run.events), purge_step=t)

    def log(self, t: int, values: Mapping[str, float]) -> None:
        """Write scalars."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, t)

    def close(self) -> None:
        """Flush and end."""
        self.writer.close()


class Wandb:
    """A Weights & Biases run named after the folder, resumed with it."""

    def __init__(self, run: Run, t: int, config: Mapping[str, Any]) -> None:
        self.run = _package("wandb").init(
            dir=str(run.path), id=run.path.name, name=run.path.name, resume="allow", config=dict(config)
        )

    def log(self, t: int, values: Mapping[str, float]) -> None:
        """Write scalars."""
        self.run.log(dict(values), step=t)

    def close(self) -> None:
        """Flush and end."""
        self.run.finish()


class MLflow:
    """An MLflow run named after the folder."""

    def __init__(self, run: Run, t: int, config: Mapping[str, Any]) -> None:
        self.mlflow = _package("mlflow")
        self.mlflow.start_run(run_name=run.path.name)
        self.mlflow.log_params(dict(config))

    def log(self, t: int, values: Mapping[str, float]) -> None:
        """Write scalars."""
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
        if importlib.util.find_spec(PACKAGES[name]) is None:
            refuse("log.to", name, f"loggers whose package is installed: pip install {PACKAGES[name]}")


def open_loggers(run: Run, t: int) -> list[Logger]:
    """Return the loggers that the run's settings name, from global step `t` on."""
    config = run.config()
    return [KINDS[name](run, t, values_of(config)) for name in config.log.to]


def _package(name: str) -> Any:
    return importlib.import_module(PACKAGES[name])
