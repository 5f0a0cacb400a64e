"""What the figures were measured on: processor, threads, allocator, versions, memory."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

ALLOCATOR = ("GLIBC_TUNABLES", "MALLOC_", "LD_PRELOAD")
OPENMP = ("OMP_", "MKL_", "KMP_")
# glibc gives blocks of 32 MiB and more back to the kernel as soon as they are free, and asks for them anew: a page
# fault for every 4 KiB of activations, on every pass. With these two it keeps them.
KEEPING = {"MALLOC_MMAP_THRESHOLD_": "2000000000", "MALLOC_TRIM_THRESHOLD_": "2000000000"}


def facts(device: str = "cpu") -> dict[str, Any]:
    """Return what a reader has to know of this machine."""
    told: dict[str, Any] = {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}".strip(", "),
        "python": platform.python_version(),
        "allocator": settings(ALLOCATOR),
        "openmp": settings(OPENMP),
        "load": round(os.getloadavg()[0], 1),
    }
    if device.startswith("cuda"):
        told["gpu"] = torch.cuda.get_device_name(device)
    return told


def settings(prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the environment's variables of these beginnings."""
    return {name: os.environ[name] for name in sorted(os.environ) if name.startswith(prefixes)}


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name, as the kernel tells it, with the vector units that matter here."""
    if not cpuinfo.is_file():
        return platform.processor() or platform.machine()
    told = dict(line.split(":", 1) for line in cpuinfo.read_text().splitlines() if ":" in line)
    told = {key.strip(): value.strip() for key, value in told.items()}
    units = [unit for unit in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if unit in told.get("flags", "").split()]
    kind = f"family {told['cpu family']} model {told['model']}" if "cpu family" in told else ""
    return ", ".join(part for part in (told.get("model name", platform.machine()), kind, " ".join(units)) if part)


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of PyTorch, of ours and of these packages."""
    return {name: metadata.version(name) for name in ("torch", "bilaw", *packages)}


def resident(which: str) -> float:
    """Return the MiB resident now (VmRSS) or at most (VmHWM); Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def forget_peak() -> None:
    """Let VmHWM begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


def tidy() -> None:
    """Give back to the system what is free, so that it is not there before and hides what comes."""
    gc.collect()
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)
