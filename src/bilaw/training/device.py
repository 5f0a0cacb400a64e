"""Where a run is computed, and how; what is global is put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from bilaw.config import ComputeConfig
from bilaw.errors import refuse


def resolve(config: ComputeConfig, model: nn.Module) -> ComputeConfig:
    """Return the settings with every "auto" decided for this machine and model."""
    device = _device(config.device)
    convolutions = [part for part in model.modules() if isinstance(part, nn.Conv2d)]
    # Measured on CPU and known of GPUs with tensor cores: it pays where convolutions read many channels.
    pays = any(conv.in_channels >= 32 for conv in convolutions) and device.type in ("cpu", "cuda")
    return replace(
        config,
        device=str(device),
        precision=config.precision or "fp32",
        channels_last=pays if config.channels_last is None else config.channels_last,
        threads=config.threads or torch.get_num_threads(),
    )


@contextmanager
def computing(config: ComputeConfig) -> Iterator[None]:
    """Set the threads, deterministic convolutions on a GPU, and gradients; put all back on leaving."""
    threads, cudnn = torch.get_num_threads(), torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    try:
        if config.threads is not None and config.threads != threads:
            torch.set_num_threads(config.threads)
        cudnn.deterministic, cudnn.benchmark = True, False
        with torch.enable_grad():
            yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        cudnn.deterministic, cudnn.benchmark = before


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type == "cpu" and device.index:
            raise RuntimeError("there is one cpu")  # PyTorch takes any number, and computes on that one
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        have = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        have += ["mps"] if torch.backends.mps.is_available() else []
        refuse("compute.device", name, f"a device of this machine: {', '.join(have)} ({str(error).splitlines()[0]})")
    if device.type == "meta":
        refuse("compute.device", name, "a device that computes")
    return device
