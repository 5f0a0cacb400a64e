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

from torch import Tensor

from bilaw import sealed
from bilaw.errors import refuse
from bilaw.files import PART, explained, write_text

Tensors = Mapping[str, Tensor]
SCHEMA = "bilaw-result-1"


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
        if self.manifest_file.exists():
            self._check_same(manifest)
            return
        if self.path.exists() and (not self.path.is_dir() or any(not _half(file) for file in self.path.iterdir())):
            refuse("out", str(self.path), "a new or an empty folder, or that of an evaluation to go on with")
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.manifest_file, json.dumps(manifest, indent=1) + "\n")

    def _check_same(self, manifest: Mapping[str, Any]) -> None:
        """Refuse to go on with anything else than what the evaluation began with, naming the first of it."""
        before, told = _object("out", self.manifest_file), _flat(manifest)
        then = _flat(before)
        for what in [*then, *told]:
            if then.get(what) != told.get(what):
                was, now = then.get(what, "nothing"), told.get(what, "nothing")
                accepted = f"the {what} it began with, {was} and not {now}; choose another folder (--out) for these"
                refuse("out", str(self.path), accepted)

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
        with explained(self.parts):
            self.parts.mkdir(exist_ok=True)
        sealed.write(self.parts / f"{name}.safetensors", tensors, {})

    def finish(self, result: Mapping[str, Any], verdicts: Tensors, points: Tensors, texts: Mapping[str, str]) -> None:
        """Write what the evaluation came to; the numbers come last, and mean that all the rest is there."""
        sealed.write(self.path / "verdicts.safetensors", verdicts, {})
        if points:
            sealed.write(self.path / "points.safetensors", points, {})
        for name, text in texts.items():
            write_text(self.path / name, text)
        write_text(self.result_file, json.dumps(result, indent=1, allow_nan=False) + "\n")
        shutil.rmtree(self.parts, ignore_errors=True)
        for file in filter(_half, self.path.iterdir()):  # what a kill left
            file.unlink(missing_ok=True)


def read_result(path: Path | str) -> dict[str, Any] | None:
    """Return the numbers in an evaluation's folder; None while it is not finished."""
    file = Path(path) / "result.json"
    if not file.exists():
        return None
    held = _object("result", file)
    if held.get("schema") != SCHEMA:
        refuse("result", str(file), f"a result of schema {SCHEMA}, not {held.get('schema')!r}")
    return held


def read_seconds(path: Path | str) -> dict[str, float]:
    """Return how long each suite of a finished evaluation took; of a part that was done before a kill, nothing."""
    file = Path(path) / "timing.json"
    held = _object("timing", file).get("seconds") if file.exists() else None
    return {str(name): float(value) for name, value in held.items()} if isinstance(held, dict) else {}


def beside(folder: Path) -> list[Path]:
    """Return a run's evaluation and those beside it, as in `evaluation-autoattack`, the run's own first."""
    others = sorted(path for path in folder.parent.glob(f"{folder.name}-*") if path.is_dir())
    return [path for path in (folder, *others) if path.is_dir()]


def _object(setting: str, file: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        refuse(setting, str(file), f"a JSON file that is intact ({error})")
    if not isinstance(held, dict):
        refuse(setting, str(file), f"a JSON object, not a {type(held).__name__}")
    return held


def _half(file: Path) -> bool:
    return file.name.endswith(PART)


def _flat(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with its settings one by one, as "setting NAME"."""
    settings = manifest.get("settings")
    listed = {f"setting {name}": value for name, value in settings.items()} if isinstance(settings, dict) else {}
    return {**{name: value for name, value in manifest.items() if name != "settings"}, **listed}


def read_points(path: Path | str) -> dict[str, Tensor]:
    """Return the adversarial points in an evaluation's folder, by suite, where they were kept."""
    file = Path(path) / "points.safetensors"
    return sealed.read(file).tensors if file.exists() else {}


def read_verdicts(path: Path | str) -> dict[str, Tensor]:
    """Return the verdicts in an evaluation's folder: "SUITE robust", "SUITE by", "SUITE loss", "index", "y"."""
    return sealed.read(Path(path) / "verdicts.safetensors").tensors
