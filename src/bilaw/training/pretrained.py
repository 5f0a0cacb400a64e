"""A weight network from an earlier run, for schemes and adversaries that use it as it is."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bilaw import runs
from bilaw.errors import refuse
from bilaw.models.weights import read_safetensors
from bilaw.weighting import FEATURES, Omega, WeightNet
from bilaw.weighting.features import POINTS, width

SETTING = "scheme.network"
SAVED = "a weight network, as a run with scheme.name = learned saves it"


def load_omega(path: Path | str, classes: int, device: torch.device | str = "cpu") -> Omega:
    """Return the weight network in a run's folder or in a safetensors file, fit for data with as many `classes`."""
    file = runs.Run(path).omega if Path(path).is_dir() else Path(path)
    if not file.is_file() and Path(path).is_dir():
        refuse(SETTING, str(path), f"the folder of a run that has learned one: there is no {file.name} in it")
    held = read_safetensors(SETTING, file)
    about = _about(file)
    network = _network(held, file)
    if network.inputs != width(about["features"], classes):
        refuse(SETTING, str(path), f"a network for {classes} classes; this one takes {network.inputs} features")
    network.load_state_dict(held)
    return Omega(network.requires_grad_(False).to(device), about["features"], about["margin_from"])


def _network(held: dict[str, Tensor], file: Path) -> WeightNet:
    """Return a network of the widths that the file's matrices have."""
    count = sum(value.ndim == 2 for value in held.values())
    matrices = [held[name] for i in range(count) if (name := f"layers.{2 * i}.weight") in held]
    fits = len(matrices) == count and all(after.shape[1] == before.shape[0] for before, after in pairwise(matrices))
    if not matrices or not fits or matrices[-1].shape[0] != 1:
        refuse(SETTING, str(file), SAVED)
    made = WeightNet(matrices[0].shape[1], [len(value) for value in matrices[:-1]])
    shapes = {name: value.shape for name, value in made.state_dict().items()}
    if shapes != {name: value.shape for name, value in held.items()}:
        refuse(SETTING, str(file), SAVED)
    if not all(bool(value.isfinite().all()) for value in held.values()):
        refuse(SETTING, str(file), "a weight network without NaN and infinities")
    return made


def _about(file: Path) -> dict[str, str]:
    try:
        with safe_open(file, framework="pt") as opened:
            found = opened.metadata() or {}
    except (SafetensorError, OSError) as error:
        refuse(SETTING, str(file), f"a safetensors file ({error})")
    about = {"margin_from": "clean", **found}
    if about.get("features") not in FEATURES or about["margin_from"] not in POINTS:
        refuse(SETTING, str(file), "a file that says which features it reads, as a run saves it")
    return about
