"""Network passes, counted exactly: how many rows went forward and came back through a classifier's last layer.

Every way to the logits leads through the last linear layer, however the pass is written: by the module, by a
functional call of it, or layer by layer on its weights. `hooks` sees calls of the layer itself and costs next to
nothing, so it may stay on while a clock runs, but for ours: a module with hooks has to be called as it is, and takes
no faster way. `deep` sees the operations below autograd, those that never call the layer, too, and adds up
multiply-adds; it is slow, so nothing is timed under it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import conv_flop_count, flop_registry


@dataclass
class Count:
    """Rows (samples x passes) through the network, and multiply-adds where they were counted."""

    forward: int = 0
    backward: int = 0
    multiply_adds: int = 0

    def told(self) -> dict[str, int]:
        """Return it as plain numbers, multiply-adds only if there are any."""
        return {name: value for name, value in asdict(self).items() if value or name != "multiply_adds"}


def last_linear(module: nn.Module) -> nn.Linear:
    """Return the layer that gives the logits."""
    return [part for part in module.modules() if isinstance(part, nn.Linear)][-1]


@contextmanager
def hooks(module: nn.Module) -> Iterator[Count]:
    """Count the rows of every call of the last layer, and of every gradient of what it returned."""
    count = Count()

    def came_back(gradient: Tensor) -> None:
        count.backward += len(gradient)

    def went(layer: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> None:
        count.forward += len(logits)
        if logits.requires_grad:
            logits.register_hook(came_back)

    handle = last_linear(module).register_forward_hook(went)
    try:
        yield count
    finally:
        handle.remove()


@contextmanager
def deep(module: nn.Module) -> Iterator[Count]:
    """Count by the operations themselves; only for networks whose last layer's shape no other layer has."""
    layer = last_linear(module)
    with Deep(layer.in_features, layer.out_features) as mode:
        yield mode.count


class Deep(TorchDispatchMode):
    """Sees every operation. A product of (n, width) with the last layer's weight is a pass forward of n rows, one of
    (n, classes) a pass back; that for the layer's own gradient has neither's shape, unless n is `classes`."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.width, self.classes, self.count = width, classes, Count()
        self.weight = {(width, classes), (classes, width)}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func._overloadpacket
        if packet in flop_registry:
            self.count.multiply_adds += flop_registry[packet](*args, **kwargs, out_val=out) // 2
        elif "_convolution_pointwise" in packet.__name__:  # oneDNN's convolution fused with what follows it
            shapes = args[0].shape, args[1].shape, out.shape
            self.count.multiply_adds += conv_flop_count(*shapes, transposed=False) // 2
        if isinstance(out, Tensor) and out.ndim == 2 and ("mm" in packet.__name__ or "linear" in packet.__name__):
            self._note([tuple(a.shape) for a in args if isinstance(a, Tensor)], *out.shape)
        return out

    def _note(self, shapes: list[tuple[int, ...]], rows: int, columns: int) -> None:
        if not any(shape in self.weight for shape in shapes):
            return
        if columns == self.classes and (rows, self.width) in shapes:
            self.count.forward += rows
        elif columns == self.width and (rows, self.classes) in shapes:
            self.count.backward += rows


@contextmanager
def nothing(module: nn.Module) -> Iterator[None]:
    """Count nothing."""
    yield


COUNTERS = {"hooks": hooks, "deep": deep, "nothing": nothing}


def synchronise(device: str) -> None:
    """Wait until the device has done what it was told."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
