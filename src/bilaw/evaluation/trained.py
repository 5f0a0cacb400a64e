"""A trained run, put together again for judging: its classifier at the best epoch, and its weight network."""

from __future__ import annotations

from torch import nn

from bilaw.datasets.data import Dataset, shape_of
from bilaw.models.own import load_model
from bilaw.models.weights import load_weights
from bilaw.runs import Run
from bilaw.training.pretrained import load_omega
from bilaw.weighting import Omega


def trained(run: Run, data: Dataset, model: str | None = None) -> tuple[nn.Module, Omega | None]:
    """Return a run's classifier, of the model named if one is, and the weight network that it learned or was given."""
    config, classes = run.config(), len(data.classes)
    module = load_model(model or config.model.name, shape_of(data.test or data.train), classes, 0)
    load_weights(module, run.best)
    omega = load_omega(run.path, classes) if run.omega.is_file() else None
    if omega is None and config.scheme.network is not None:
        omega = load_omega(config.scheme.network, classes)
    return module, omega
