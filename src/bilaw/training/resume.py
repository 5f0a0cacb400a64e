"""Going on with a run: only on the settings, data and model it has had, and only from files that are whole.

What follows from the settings, or from the checkpoint, is written anew where it is damaged; the rest is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from bilaw import runs
from bilaw.errors import refuse
from bilaw.status import REMEDY
from bilaw.training import checkpoint
from bilaw.training.keepers import epoch_of
from bilaw.training.loop import Loop
from bilaw.training.setup import Setup, identity

LOST = REMEDY.replace("it", "them", 1)


def to_resume(folder: Path | None) -> runs.Run:
    """Return the run in a folder, refusing one that has finished."""
    if folder is None:
        refuse("run", None, "the folder of the run to go on with, when resume is true")
    run = runs.Run.open(folder)
    if run.finished():
        refuse("run", str(folder), "a run that has not finished; to repeat this one: --config of its config.toml")
    return run


def go_back(loop: Loop, run: runs.Run) -> None:
    """Stand at the run's last checkpoint, or at its start if it was killed before it could take a single one."""
    kept = checkpoint.newest(run.checkpoints, loop.watch.note)
    _check_same(loop.setup, kept.facts["identity"] if kept else {"config": identity(run.config())}, run.path)
    if _epochs(run) and not kept:
        refuse(str(run.checkpoints), "empty", f"the checkpoints of the epochs that the metrics tell of: {LOST}")
    if kept and kept.facts["standing"]["best"] and not run.best.is_file():
        refuse(str(run.best), "missing", f"the weights of the best epoch: {LOST}")
    run.cut(kept.facts["lengths"] if kept else {})
    run.checkpoints.mkdir(exist_ok=True)
    if kept and len(kept.tensors["seen"]) == len(runs.WEIGHT_VALUES):
        loop.setup.seen.narrow()
    _settle(run, loop.setup.feed.parts._asdict(), loop.setup.seen.omega is not None)
    if kept:
        loop.load(kept.tensors, kept.facts)
        loop.saved = kept.path


def _check_same(setup: Setup, kept: Mapping[str, str], folder: Path) -> None:
    """Refuse to go on with other data, another model or other settings than the run has had."""
    for what, digest in kept.items():
        if setup.identity[what] != digest:
            refuse(what, "another than when the run began", f"the {what} of {folder}: a run goes on with what it has")


def _epochs(run: runs.Run) -> int:
    """Return how many epochs the metrics tell of, refusing lines that cannot be read; lost ones are seen by length."""
    try:
        run.timing()
        return len([epoch_of(line) for line in run.epochs()])
    except FileNotFoundError:
        return 0
    except (KeyError, TypeError) as error:
        what = f"lines as bilaw writes them ({type(error).__name__}: {error})"
        refuse(str(run.path / "metrics.jsonl"), "damaged", f"{what}: {REMEDY}")


def _settle(run: runs.Run, splits: Mapping[str, Tensor], networked: bool) -> None:
    """Write the splits anew if they are not these, and what a row of weights is."""
    try:
        held = run.splits()
        right = held.keys() == splits.keys() and all(torch.equal(held[name], splits[name]) for name in splits)
    except (SafetensorError, OSError):
        right = False
    if not right:
        run.set_splits(splits)
    run.describe_weights(len(splits["train"]), networked)
