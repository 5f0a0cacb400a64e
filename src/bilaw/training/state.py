"""All that changes while training, as named tensors: what a checkpoint holds and a resumed run begins with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from bilaw.net import Net
from bilaw.training.average import Average
from bilaw.weighting import Learned

Tensors = dict[str, Tensor]


class State:
    """theta, the buffers, SGD's momentum, the average, mu and its optimiser."""

    def __init__(
        self, net: Net, optimizer: torch.optim.Optimizer, learned: Learned | None, average: Average | None
    ) -> None:
        self.net, self.optimizer, self.learned, self.average = net, optimizer, learned, average

    def tensors(self) -> Tensors:
        """Return everything by name; the tensors themselves, not copies."""
        return {**self._values(), **_optimizer_tensors("momentum", self.optimizer), **self._mu_optimizer()}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over everything, in place."""
        for name, value in self._values().items():
            value.copy_(tensors[name])
        _load_optimizer("momentum", self.optimizer, tensors)
        if self.learned:
            _load_optimizer("mu-optimizer", self.learned.optimizer, tensors)

    def finite(self) -> bool:
        """Tell whether theta and mu are numbers."""
        values = [*self.net.theta.values(), *(self.learned.mu if self.learned else ())]
        return bool(torch.stack([value.detach().isfinite().all() for value in values]).all())

    def weights(self) -> Tensors:
        """Return the classifier as a state_dict: the average, where there is one, in theta's place."""
        own: Tensors = {**self.net.theta, **dict(self.net.module.named_buffers())}
        averages = {**self.average.theta, **self.average.buffers} if self.average else {}
        # By the tensor, not by its name: tied parameters have two.
        instead = {id(own[name]): value for name, value in averages.items()}
        held = self.net.module.state_dict(keep_vars=True)
        return {name: instead.get(id(value), value) for name, value in held.items() if isinstance(value, Tensor)}

    def omega(self) -> Tensors:
        """Return the weight network as a state_dict."""
        return dict(self.learned.omega.network.state_dict()) if self.learned else {}

    def _values(self) -> Tensors:
        # Frozen parameters, too: a resumed run may be handed a model with others.
        values: Tensors = {f"theta/{name}": p for name, p in self.net.module.named_parameters()}
        values |= {f"buffer/{name}": value for name, value in self.net.module.named_buffers()}
        if self.average:
            values |= {f"average-theta/{name}": value for name, value in self.average.theta.items()}
            values |= {f"average-buffer/{name}": value for name, value in self.average.buffers.items()}
        return values | {f"mu/{name}": value for name, value in self.omega().items()}

    def _mu_optimizer(self) -> Tensors:
        return _optimizer_tensors("mu-optimizer", self.learned.optimizer) if self.learned else {}


def _optimizer_tensors(prefix: str, optimizer: torch.optim.Optimizer) -> Tensors:
    held = optimizer.state_dict()["state"]
    return {
        f"{prefix}/{index}/{key}": value
        for index, entries in held.items()
        for key, value in entries.items()
        if isinstance(value, Tensor)
    }


def _load_optimizer(prefix: str, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, Tensors] = {}
    for name, value in tensors.items():
        if name.startswith(f"{prefix}/"):
            _, index, key = name.split("/")
            state.setdefault(int(index), {})[key] = value.clone()
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
