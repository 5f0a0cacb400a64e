"""What a run's numbers may depend on beside its settings: versions, machine, the state of the user's code."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import torch

from bilaw.config import ComputeConfig

# These give untyped functions their types.
_version: Callable[[str], str] = metadata.version
_cudnn: Callable[[], int] = torch.backends.cudnn.version
PACKAGES = ("bilaw", "torch", "numpy", "safetensors")


def environment(compute: ComputeConfig) -> dict[str, Any]:
    """Return versions, machine, device, the git state of the current folder, and the command."""
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "platform": platform.platform(),
        "device": _device(torch.device(compute.device or "cpu")),
        "threads": torch.get_num_threads(),
        "git": _git(),
        "command": shlex.join(sys.argv),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _device(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {"name": str(device), "model": torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else None}
    about = torch.cuda.get_device_properties(device)
    return {"name": str(device), "model": about.name, "cuda": torch.version.cuda, "cudnn": _cudnn()}


def _git() -> dict[str, Any] | None:
    """Return the commit checked out in the current folder, and whether anything differs from it; None outside git."""

    def ask(*words: str) -> str:
        return subprocess.run(
            ["git", *words], capture_output=True, text=True, check=True, timeout=10, stdin=subprocess.DEVNULL
        ).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
