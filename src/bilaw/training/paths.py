"""Files and folders that settings name, written down so that a run can go on from any current folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bilaw.config import Config
from bilaw.datasets.table import DATASETS


def absolute(config: Config) -> Config:
    """Return the settings with absolute paths in place of those that exist; names and module:function stay."""
    data, model, scheme = config.data, config.model, config.scheme
    name = data.name if data.name in DATASETS else _found(data.name) or data.name
    return replace(
        config,
        data=replace(data, name=name, root=_found(data.root)),
        model=replace(model, weights=_found(model.weights)),
        scheme=replace(scheme, network=_found(scheme.network)),
    )


def _found(path: str | None) -> str | None:
    if path is None:
        return None
    there = Path(path).expanduser()
    return str(there.absolute()) if there.exists() else path
