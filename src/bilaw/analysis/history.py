"""The weight history of a run, as figures take it: single precision, with labels where the data are there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bilaw.analysis.measures import Array
from bilaw.datasets.data import Dataset
from bilaw.runs import Run


class History(NamedTuple):
    """What each training sample weighed (1: as much as all others), and its margins, epoch by epoch."""

    epoch: Array  # (e,) int, from 0
    values: dict[str, Array]  # "weight", "clean margin", "adversarial margin", ...: (e, n) float32; NaN: left out
    place: Array  # (n,) int64, in the training half
    y: Array | None  # (n,) int64; None where the data cannot be read


def history(run: Run, data: Dataset | None) -> History | None:
    """Return a run's weight history; None where it kept none."""
    try:
        names, epochs, held = run.weights()
        place = run.splits()["train"].numpy()
    except (OSError, ValueError, KeyError):  # no such file, or one that was cut short
        return None
    if not epochs or held.shape[2] != len(place):
        return None
    y = data.train.y.numpy()[place] if data is not None and place.max() < len(data.train.y) else None
    values = {name: held[:, i].astype(np.float32) for i, name in enumerate(names)}
    return History(np.array(epochs), values, place, y)
