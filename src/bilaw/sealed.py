"""Tensors and facts in one file that is whole or absent, and known to be intact when it is read.

A safetensors file holds named tensors, and in its header the facts (JSON) and a digest of both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bilaw.errors import Refused
from bilaw.files import write_tensors


class Sealed(NamedTuple):
    """What a file holds."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    path: Path


def write(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and facts, whole or not at all."""
    held = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps(facts)
    write_tensors(path, held, {"facts": text, "digest": digest(held, text)})


def read(path: Path) -> Sealed:
    """Return what is in the file at `path`, refusing a damaged one."""
    try:
        with safe_open(path, framework="pt") as held:
            metadata = held.metadata() or {}
            tensors = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118 - not a mapping
        facts = json.loads(metadata["facts"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise Refused(f"{path} is damaged: {error}") from error
    if digest(tensors, metadata["facts"]) != metadata.get("digest"):
        raise Refused(f"{path} is damaged: its content does not match its digest")
    return Sealed(tensors, facts, path)


def digest(tensors: Mapping[str, Tensor], facts: str = "") -> str:
    """Return a hash of names, types, shapes, values and facts."""
    hashed = hashlib.blake2b(facts.encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        hashed.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        hashed.update(memoryview(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()))  # type: ignore[arg-type]
    return hashed.hexdigest()
