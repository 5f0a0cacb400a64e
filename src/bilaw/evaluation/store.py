"""An evaluation's folder; this module alone knows the names in it.

manifest.json         what is measured on what: hashes of model, data and settings
parts/                a sealed file for each finished (suite, attack, batch), until all are there
verdicts.safetensors  for every suite and sample: robust or not, which attack broke it, at what loss
points.safetensors    the adversarial points, on request
result.json           the numbers, with intervals and audit, as result.schema.json says
timing.json           what is not the same each time
model_info.json       an entry for RobustBench's model_info, and card.md, a page for people
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from safetensors.torch import load_file
from torch import Tensor

from bilaw import sealed
from bilaw.errors import refuse
from bilaw.files import explained, write_tensors, write_text

Tensors = Mapping[str, Tensor]


class Store(Protocol):
    """Where finished parts are kept while an evaluation goes on."""

    def part(self, name: str) -> dict[str, Tensor] | None:
        """Return a part that is finished already."""
        ...

    def keep(self, name: str, tensors: Tensors) -> None:
        """Keep a finished part."""
        ...


class Memory:
    """Keeps nothing: an evaluation without a folder."""

    def part(self, name: str) -> dict[str, Tensor] | None:
        """Return nothing."""
        return None

    def keep(self, name: str, tensors: Tensors) -> None:
        """Drop it."""


class Folder:
    """Keeps every finished part on disk, whole or not at all."""

    def __init__(self, path: Path | str, manifest: Mapping[str, Any]) -> None:
        self.path = Path(path)
        held = self.manifest_file
        if not held.exists():
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                refuse("out", str(self.path), "a new or an empty folder, or that of an evaluation to go on with")
            with explained(self.path):
                self.parts.mkdir(parents=True)
            write_text(held, json.dumps(manifest, indent=1) + "\n")
            return
        try:
            before = json.loads(held.read_text())
        except ValueError as error:
            refuse("out", str(self.path), f"the folder of an evaluation, its {held.name} intact ({error})")
        for what, digest in manifest.items():
            if before.get(what) != digest:
                then, now = before.get(what), digest
                accepted = f"the {what} it began with, {then} and not {now}; choose another folder (--out) for these"
                refuse("out", str(self.path), accepted)
        with explained(self.path):
            self.parts.mkdir(exist_ok=True)

    @property
    def manifest_file(self) -> Path:
        """Return the file of hashes."""
        return self.path / "manifest.json"

    @property
    def parts(self) -> Path:
        """Return the folder of finished parts."""
        return self.path / "parts"

    @property
    def result_file(self) -> Path:
        """Return the file of the numbers."""
        return self.path / "result.json"

    def part(self, name: str) -> dict[str, Tensor] | None:
        """Return a part that is finished already; a damaged one is done again."""
        path = self.parts / f"{name}.safetensors"
        if not path.exists():
            return None
        try:
            return sealed.read(path).tensors
        except ValueError:
            with explained(path):
                path.unlink()
            return None

    def keep(self, name: str, tensors: Tensors) -> None:
        """Keep a finished part."""
        sealed.write(self.parts / f"{name}.safetensors", tensors, {})

    def finish(self, result: Mapping[str, Any], verdicts: Tensors, points: Tensors, texts: Mapping[str, str]) -> None:
        """Write what the evaluation came to; the numbers come last, and mean that all the rest is there."""
        write_tensors(self.path / "verdicts.safetensors", verdicts, {})
        if points:
            write_tensors(self.path / "points.safetensors", points, {})
        for name, text in texts.items():
            write_text(self.path / name, text)
        write_text(self.result_file, json.dumps(result, indent=1, allow_nan=False) + "\n")
        shutil.rmtree(self.parts, ignore_errors=True)


def read_result(path: Path | str) -> dict[str, Any] | None:
    """Return the numbers in an evaluation's folder; None while it is not finished."""
    file = Path(path) / "result.json"
    if not file.exists():
        return None
    try:
        held: dict[str, Any] = json.loads(file.read_text())
    except ValueError as error:
        refuse("result", str(file), f"a result that can be read ({error})")
    return held


def read_points(path: Path | str) -> dict[str, Tensor]:
    """Return the adversarial points in an evaluation's folder, by suite, where they were kept."""
    file = Path(path) / "points.safetensors"
    held: dict[str, Tensor] = load_file(file) if file.exists() else {}
    return held


def read_verdicts(path: Path | str) -> dict[str, Tensor]:
    """Return the verdicts in an evaluation's folder: "SUITE robust", "SUITE by", "SUITE loss", "index", "y"."""
    held: dict[str, Tensor] = load_file(Path(path) / "verdicts.safetensors")
    return held
