"""Checkpoints: a sealed file each, the last two kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from bilaw import sealed
from bilaw.errors import Refused
from bilaw.files import explained
from bilaw.sealed import Sealed

KEPT = 2  # the newest may turn out corrupt


def save(folder: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
    """Write the next checkpoint into `folder`, and drop all but the last two.

    They are numbered in the order they were taken, not by step: after a roll back, steps come again.
    """
    held = _paths(folder)
    path = folder / f"{int(held[-1].stem) + 1 if held else 0:09d}.safetensors"
    sealed.write(path, tensors, facts)
    for old in [*held, path][:-KEPT]:
        old.unlink()
    return path


def newest(folder: Path, note: Callable[[str], None]) -> Sealed | None:
    """Return the newest intact checkpoint; None where there never was one.

    `note` is told of damaged ones; they are renamed, so that they do not count as one of the last two.
    """
    damaged: list[Path] = []
    held = _paths(folder)
    for path in reversed(held):
        try:
            found = sealed.read(path)
        except ValueError as error:
            note(f"{error}{'; falling back to the checkpoint before it' * (path != held[0])}")
            damaged.append(path)
            continue
        for bad in damaged:
            with explained(bad):
                bad.replace(bad.with_suffix(".damaged"))
        return found
    if damaged:
        raise Refused(f"no checkpoint in {folder} is intact: start the run anew")
    return None


def _paths(folder: Path) -> list[Path]:
    """Return the checkpoints in the order they were taken; hidden files are half-written ones."""
    return sorted(folder.glob("[0-9]*.safetensors"))
