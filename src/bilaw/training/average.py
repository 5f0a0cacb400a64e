"""An exponential moving average of theta and of the buffers, as an option."""

from __future__ import annotations

import torch
from torch import Tensor

from bilaw.net import Net


class Average:
    """a <- d a + (1 - d) theta after every step, with d = min(decay, (1 + t) / (10 + t)): early steps count little."""

    def __init__(self, net: Net, decay: float) -> None:
        self.decay = decay
        self.theta = {name: p.detach().clone() for name, p in net.theta.items()}
        self.buffers = {name: value.clone() for name, value in net.module.named_buffers()}

    @torch.no_grad()
    def update(self, net: Net, t: int) -> None:
        """Follow theta after step `t`; counters and other whole numbers are copied."""
        decay = min(self.decay, (1 + t) / (10 + t))
        now: dict[str, Tensor] = dict(net.module.named_buffers())
        moving = [name for name in self.buffers if self.buffers[name].is_floating_point()]
        for name in self.buffers.keys() - set(moving):
            self.buffers[name].copy_(now[name])
        averages = [*self.theta.values(), *(self.buffers[name] for name in moving)]
        values = [*(net.theta[name] for name in self.theta), *(now[name] for name in moving)]
        torch._foreach_lerp_(averages, values, 1 - decay)
