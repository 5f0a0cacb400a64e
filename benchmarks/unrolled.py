"""Lines 5 to 8 of Algorithm 1 as users of `higher`, torchopt and betty write them, each after its own examples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bilaw.margins import multiclass_margin

Step = Callable[[], object]


class Problem(NamedTuple):
    """The classifier, the weight network and the data of one step."""

    module: nn.Module
    network: nn.Module
    x: Tensor
    x_adv: Tensor
    y: Tensor
    held: Tensor
    held_adv: Tensor
    held_y: Tensor
    beta: float = 0.05
    alpha: float = 1e-3


def features(logits_of: Callable[[Tensor], Tensor], given: Problem) -> Tensor:
    """Return what the weight network looks at: the clean multi-class margins."""
    with torch.no_grad():
        return multiclass_margin(logits_of(given.x), given.y)


def weighted(network: Callable[[Tensor], Tensor], margins: Tensor, logits: Tensor, y: Tensor) -> Tensor:
    """Return sum_i w_i CE_i with weights of sum 1."""
    raw = network(margins)
    return (raw / raw.sum() * F.cross_entropy(logits, y, reduction="none")).sum()


def higher_step(given: Problem) -> Step:
    """Return the step by `higher`: a functional copy of the module and a differentiable optimiser."""
    import higher

    module, network = given.module, given.network
    optimizer = torch.optim.SGD(module.parameters(), lr=given.beta)
    of_mu = torch.optim.Adam(network.parameters(), lr=given.alpha)

    def step() -> None:
        margins = features(module, given)
        with higher.innerloop_ctx(module, optimizer) as (fmodel, diffopt):
            diffopt.step(weighted(network, margins, fmodel(given.x_adv), given.y))
            of_mu.zero_grad()
            held = F.cross_entropy(fmodel(given.held_adv), given.held_y)
            for p, gradient in zip(
                network.parameters(), torch.autograd.grad(held, list(network.parameters())), strict=True
            ):
                p.grad = gradient
        of_mu.step()
        optimizer.zero_grad()
        with torch.no_grad():
            raw = network(margins)
            w = raw / raw.sum()
        (w * F.cross_entropy(module(given.x_adv), given.y, reduction="none")).sum().backward()
        optimizer.step()

    return step


def torchopt_step(given: Problem) -> Step:
    """Return the step by torchopt: a MetaSGD on the module itself, whose state is taken out and put back."""
    import torchopt

    module, network = given.module, given.network
    optimizer = torch.optim.SGD(module.parameters(), lr=given.beta)
    of_mu = torch.optim.Adam(network.parameters(), lr=given.alpha)
    inner = torchopt.MetaSGD(module, lr=given.beta)

    def step() -> None:
        margins = features(module, given)
        state = torchopt.extract_state_dict(module, by="reference", detach_buffers=True)
        state_of_inner = torchopt.extract_state_dict(inner, by="reference")
        inner.step(weighted(network, margins, module(given.x_adv), given.y))
        held = F.cross_entropy(module(given.held_adv), given.held_y)
        of_mu.zero_grad()
        for p, gradient in zip(
            network.parameters(), torch.autograd.grad(held, list(network.parameters())), strict=True
        ):
            p.grad = gradient
        of_mu.step()
        torchopt.recover_state_dict(module, state)
        torchopt.recover_state_dict(inner, state_of_inner)
        optimizer.zero_grad()
        with torch.no_grad():
            raw = network(margins)
            w = raw / raw.sum()
        (w * F.cross_entropy(module(given.x_adv), given.y, reduction="none")).sum().backward()
        optimizer.step()

    return step


class BettyStep:
    """The step by betty: two problems, the lower one unrolled once, then rolled back and stepped anew."""

    def __init__(self, given: Problem) -> None:
        warnings.filterwarnings("ignore")  # it asks non-leaf tensors for their .grad
        from betty.configs import Config, EngineConfig
        from betty.engine import Engine
        from betty.problems import ImplicitProblem, IterativeProblem

        self.given = given

        class Classifier(IterativeProblem):  # type: ignore[misc]
            def forward(self, x: Tensor) -> Tensor:
                out: Tensor = self.fmodule(self.params, self.buffers, x)
                return out

            def on_inner_loop_start(self) -> None:
                self.params = tuple(p.detach().requires_grad_() for p in self.params)
                self.margins = features(self, given)
                self.forget()

            def forget(self) -> None:  # momentum is 0, but its buffer holds on to the graph of the last step
                self.optimizer.state = [{} for _ in self.optimizer.state]

            def training_step(self, batch: Any) -> Tensor:
                x_adv, y = batch
                return weighted(self.omega, self.margins, self(x_adv), y)

            def get_batch(self) -> Any:
                return given.x_adv, given.y

            def cache_states(self) -> None:
                self.params_cache = self.params
                self.buffers_cache = tuple(b.clone() for b in self.buffers)

            def recover_states(self) -> None:
                self.params, self.params_cache = self.params_cache, None
                self.buffers, self.buffers_cache = self.buffers_cache, None
                self.forget()
                for p in self.params:
                    p.grad = None

        class OfMu(ImplicitProblem):  # type: ignore[misc]
            def training_step(self, batch: Any) -> Tensor:
                x, y = batch
                return F.cross_entropy(self.classifier(x), y)

            def get_batch(self) -> Any:
                return given.held_adv, given.held_y

            def zero_grad(self) -> None:  # the gradient of the last step stays to be looked at
                pass

        sgd = torch.optim.SGD(given.module.parameters(), lr=given.beta)
        adam = torch.optim.Adam(given.network.parameters(), lr=given.alpha)
        device = str(given.x.device)
        self.lower = Classifier("classifier", Config(unroll_steps=1), given.module, sgd, device=device)
        self.upper = OfMu("omega", Config(first_order=False), given.network, adam, device=device)
        order = {"u2l": {self.upper: [self.lower]}, "l2u": {self.lower: [self.upper]}}
        self.engine = Engine([self.upper, self.lower], EngineConfig(roll_back=True), order)

    def __call__(self) -> None:
        for p in self.given.network.parameters():
            p.grad = None
        self.engine.global_step += 1
        self.engine.train_step()

    def parameters(self) -> list[Tensor]:
        """Return theta, which betty keeps beside the module."""
        return list(self.lower.params)


SIDES: dict[str, Callable[[Problem], Step]] = {"higher": higher_step, "torchopt": torchopt_step, "betty": BettyStep}
