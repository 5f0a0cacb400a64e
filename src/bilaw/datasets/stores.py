"""Where the images of a data set are while it is used: on the device, or elsewhere and fetched by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from bilaw.datasets.data import Images, Samples, take

RESIDENT_SHARE = 0.4  # of the device's free memory; the rest is the model's, its gradients' and the attack's


class Store(Protocol):
    """Images and labels, given out by index on `device`."""

    y: Tensor  # (N,) int64, on the device
    device: torch.device
    prefetch: bool  # fetching takes long enough to do it one batch ahead, in a thread

    def fetch(self, index: Tensor) -> Tensor:
        """Return the raw images (B, C, H, W) at `index`, on the device.

        `index` (int64) is on the host where `prefetch`, else on the device already: a transfer would make it wait.
        """
        ...


class Resident:
    """The whole data set on the device: one gather a batch, no transfer."""

    prefetch = False

    def __init__(self, images: Images, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.x, self.y = images.x.to(self.device), images.y.to(self.device)

    def fetch(self, index: Tensor) -> Tensor:
        """Return the images at `index`."""
        return self.x.index_select(0, index)


class Streamed:
    """A data set that stays on the host: `read(index)` gives a batch, which then moves without waiting."""

    prefetch = True

    def __init__(self, read: Callable[[Tensor], Tensor], y: Tensor, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.read, self.y = read, y.to(self.device)

    def fetch(self, index: Tensor) -> Tensor:
        """Return the images at `index`."""
        x = self.read(index)
        if self.device.type == "cuda":
            x = x.pin_memory()  # only pinned memory is copied while the device computes
        return x.to(self.device, non_blocking=True)


class Kept:
    """The few samples of a streamed data set that a run returns to every step: read once, resident from then on."""

    prefetch = False

    def __init__(self, samples: Samples, index: Tensor, device: torch.device | str = "cpu") -> None:
        self.held = Resident(take(samples, index), device)
        self.device, self.y = self.held.device, samples.y.to(device)
        row = torch.full((len(samples.y),), -1)
        row[index] = torch.arange(len(index))
        self.row = row.to(device)  # place in the whole data set -> row of what is kept

    def fetch(self, index: Tensor) -> Tensor:
        """Return the images at `index`, places in the whole data set."""
        return self.held.fetch(self.row[index])


def store(samples: Samples, device: torch.device | str = "cpu") -> Store:
    """Return `samples` resident on the device if held and at most 40 % of its free memory, else streamed."""
    device = torch.device(device)
    if not isinstance(samples, Images):
        return Streamed(samples.read, samples.y, device)
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if samples.x.numel() * samples.x.element_size() > RESIDENT_SHARE * free:
            return Streamed(lambda index: samples.x.index_select(0, index), samples.y, device)
    return Resident(samples, device)
