"""Checkpoints: one safetensors file each, whole or absent, and known to be intact when it is read.

A file holds named tensors, and in its header the facts (JSON) and a digest of both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bilaw.errors import Refused
from bilaw.files import explained, write_tensors

KEPT = 2  # the newest may turn out corrupt


class Checkpoint(NamedTuple):
    """What a checkpoint holds."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    path: Path


def save(folder: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
    """Write the next checkpoint into `folder`, and drop all but the last two.

    They are numbered in the order they were taken, not by step: after a roll back, steps come again.
    """
    held = _paths(folder)
    path = folder / f"{int(held[-1].stem) + 1 if held else 0:09d}.safetensors"
    write(path, tensors, facts)
    for old in [*held, path][:-KEPT]:
        old.unlink()
    return path


def write(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and facts, whole or not at all."""
    held = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps(facts)
    write_tensors(path, held, {"facts": text, "digest": digest(held, text)})


def read(path: Path) -> Checkpoint:
    """Return the checkpoint at `path`, refusing a damaged one with a `ValueError`."""
    try:
        with safe_open(path, framework="pt") as held:
            metadata = held.metadata() or {}
            tensors = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118 - not a mapping
        facts = json.loads(metadata["facts"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise Refused(f"{path} is damaged: {error}") from error
    if digest(tensors, metadata["facts"]) != metadata.get("digest"):
        raise Refused(f"{path} is damaged: its content does not match its digest")
    return Checkpoint(tensors, facts, path)


def newest(folder: Path, note: Callable[[str], None]) -> Checkpoint | None:
    """Return the newest intact checkpoint; None where there never was one.

    `note` is told of damaged ones; they are renamed, so that they do not count as one of the last two.
    """
    damaged: list[Path] = []
    held = _paths(folder)
    for path in reversed(held):
        try:
            found = read(path)
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


def digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Return a hash of names, types, shapes, values and facts."""
    hashed = hashlib.blake2b(facts.encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        hashed.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        hashed.update(memoryview(value.cpu().reshape(-1).view(torch.uint8).numpy()))  # type: ignore[arg-type]
    return hashed.hexdigest()


def _paths(folder: Path) -> list[Path]:
    """Return the checkpoints in the order they were taken; hidden files are half-written ones."""
    return sorted(folder.glob("[0-9]*.safetensors"))
