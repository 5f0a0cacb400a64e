"""A module as a pure function of its parameters.

The same code then runs at theta and at the look-ahead theta~, and nothing it does can leak into the module:
buffers are copied before a forward and written back only by `Net.commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bilaw.chain import Chain, Traced, hooked, trace
from bilaw.errors import refuse
from bilaw.types import LogitsOf

Theta = dict[str, Tensor]
Call = Callable[[Theta, tuple[Tensor]], Tensor]
SLACK = 1e-3  # of a logit: more than rounding does to a chain of float32 layers


@contextmanager
def mode(module: nn.Module, training: bool) -> Iterator[None]:
    """Put `module` in one mode, by its own `train`, and back as it was, part by part.

    A module whose `train` keeps some parts in eval mode (frozen BatchNorm) has its way.
    """
    before = [(part, part.training) for part in module.modules()]
    try:
        if training or any(was for _, was in before):  # most calls are of a module in eval mode already
            module.train(training)
        yield
    finally:
        for part, was in before:
            if part.training is not was:
                part.training = was


class Net:
    """Logits functions of a module, at its own trainable parameters theta or at any other.

    `bf16` computes in bfloat16 under autocast (parameters and logits stay float32), `channels_last` hands images over
    in that memory format, and `compile` compiles the eval-mode forward, the one that attacks climb. `bf16_attacks`
    (default: as `bf16`) is about that one alone.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        bf16: bool = False,
        channels_last: bool = False,
        compile: bool = False,
        bf16_attacks: bool | None = None,
    ) -> None:
        if not isinstance(module, nn.Module):
            refuse("model", type(module).__name__, "a torch.nn.Module that maps images to logits")
        self.module, self.bf16, self.channels_last = module, bf16, channels_last
        self.theta: Theta = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self._call: Call = partial(functional_call, module)
        self._eval_call: Call = torch.compile(self._call) if compile else self._call
        self.compiled, self.bf16_attacks = compile, bf16 if bf16_attacks is None else bf16_attacks
        self._traced: list[Traced] | None = None
        self._plain = False  # is it known that its layers make no chain?

    def frozen(self, theta: Mapping[str, Tensor] | None = None, buffers: Mapping[str, Tensor] | None = None) -> Frozen:
        """Return the eval-mode classifier at `theta` (and `buffers`), which no gradient can reach."""
        return Frozen(self, theta or self.theta, buffers)

    def chain(self, state: Mapping[str, Tensor], x: Tensor, logits_of: LogitsOf, bf16: bool) -> Chain | None:
        """Return the module as a chain of layers at `state` (`bilaw.chain`), or None where it is none.

        Whenever one is made, it is compared with `logits_of`, the module itself, on two images of `x`: a forward that
        does more than its layers tell, or does something else by now, has its way.
        """
        floats = {p.dtype for p in state.values() if p.is_floating_point()} | {x.dtype}
        single = floats in ({torch.float32}, {torch.float64})
        if self._plain or self.compiled or not single or hooked(self.module):
            return None
        if self._traced is None or not _same(self._traced, state, logits_of, x[:2]):
            self._traced = trace(self.module)  # the first time, or it does something else by now
            self._plain = self._traced is None
            if self._traced is None or not _same(self._traced, state, logits_of, x[:2]):
                return None
        return Chain(self._traced, state, torch.bfloat16 if bf16 else None)

    def _logits(self, call: Call, state: Theta, x: Tensor, bf16: bool) -> Tensor:
        if self.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        if not bf16:
            return _widened(_checked(call(state, (x,)), x))
        # No cache of cast parameters: it would outlive the step that moves them.
        with torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False):
            logits = call(state, (x,))
        return _widened(_checked(logits, x))

    def training(self, theta: Mapping[str, Tensor] | None = None, noise: int = 0) -> TrainForward:
        """Return the train-mode classifier at `theta`; equal `noise` means equal dropout masks."""
        return TrainForward(self, self.theta if theta is None else theta, noise)

    def commit(self, forward: TrainForward) -> None:
        """Write the buffers that `forward` arrived at (BatchNorm's statistics) into the module."""
        own = dict(self.module.named_buffers())
        with torch.no_grad():
            for name, value in forward.buffers.items():
                own[name].copy_(value)


class Frozen:
    """An eval-mode classifier that no gradient can reach; it follows the parameters it was given.

    Some modules move buffers in eval mode, too: those moves happen to a copy.
    """

    def __init__(self, net: Net, theta: Mapping[str, Tensor], buffers: Mapping[str, Tensor] | None) -> None:
        self.net, self.buffers = net, buffers
        self.theta = {name: value.detach() for name, value in theta.items()}

    def __call__(self, x: Tensor) -> Tensor:
        """Return logits (B, k)."""
        return self._at(x, self.net.bf16)

    def quick(self, x: Tensor, bf16: bool | None = None) -> LogitsOf:
        """Return what an attack on images such as `x` had better climb: the same logits but for rounding, for less.

        It is a copy of the weights as they are now. `bf16` has the last word on the precision (None: the net has).
        """
        bf16 = self.net.bf16_attacks if bf16 is None else bf16
        chain = self.net.chain(self._state(whole=True), x, partial(self._at, bf16=False), bf16)
        if chain is not None:
            return chain
        return self if bf16 == self.net.bf16 else partial(self._at, bf16=bf16)

    def _at(self, x: Tensor, bf16: bool) -> Tensor:
        with mode(self.net.module, training=False):
            return self.net._logits(self.net._eval_call, self._state(), x, bf16)

    def _state(self, whole: bool = False) -> Theta:
        """Return what the module is called with, its buffers as copies; or all it holds, for who only reads."""
        if whole:
            module = self.net.module
            names = (*module.named_parameters(), *module.named_buffers(remove_duplicate=False))
            return {**{name: value.detach() for name, value in names}, **self.theta, **(self.buffers or {})}
        held = self.buffers or dict(self.net.module.named_buffers())
        return {**self.theta, **{name: value.clone() for name, value in held.items()}}


def quick(logits_of: LogitsOf, x: Tensor, bf16: bool | None = None) -> LogitsOf:
    """Return `Frozen.quick` of a classifier that has it; any other callable as it is."""
    return logits_of.quick(x, bf16) if isinstance(logits_of, Frozen) else logits_of


@torch.no_grad()
def _same(traced: list[Traced], state: Mapping[str, Tensor], logits_of: LogitsOf, x: Tensor) -> bool:
    """Tell whether the layers give the logits of the module, but for rounding."""
    theirs = logits_of(x)
    try:
        ours = Chain(traced, state)(x)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError, KeyError):  # layers that do not fit together so: there is more to the module
        return False
    if ours.shape != theirs.shape:
        return False
    # Logit by logit: one that is far out, as of a class that is masked, is no measure of the others.
    usual = theirs.abs().flatten().median()
    return bool(((ours - theirs).abs() <= SLACK * theirs.abs().clamp_min(usual)).all().item())


class TrainForward:
    """A train-mode classifier whose buffer updates stay in `buffers` until `Net.commit`.

    Its random numbers (dropout) are drawn from `noise` and the count of calls, so that a second forward of the
    same step, such as the one for the directional derivative, sees the same masks; the caller's generators are
    left as they were.
    """

    def __init__(self, net: Net, theta: Mapping[str, Tensor], noise: int) -> None:
        self.net, self.theta, self.noise, self.calls = net, theta, noise, 0
        self.buffers: Theta = {name: value.clone() for name, value in net.module.named_buffers()}

    def __call__(self, x: Tensor) -> Tensor:
        """Return logits (B, k), attached to theta."""
        module, state = self.net.module, {**self.theta, **self.buffers}
        devices = [] if x.device.type == "cpu" else [x.device]
        kind = "cuda" if x.device.type == "cpu" else x.device.type
        with mode(module, training=True), torch.random.fork_rng(devices, device_type=kind):
            torch.default_generator.manual_seed(self.noise + self.calls)
            if x.is_cuda:  # only the device in use: torch.manual_seed would reseed all of them
                torch.cuda.default_generators[x.get_device()].manual_seed(self.noise + self.calls)
            logits = self.net._logits(self.net._call, state, x, self.net.bf16)
        self.calls += 1
        self.buffers = {name: state[name].detach() for name in self.buffers}
        return logits


def frozen(model: nn.Module | LogitsOf) -> LogitsOf:
    """Return a module as its eval-mode logits function; any other callable as it is.

    Attacks enter through here, so that a module handed over in train mode is still attacked in eval mode and
    keeps its mode, its buffers, its `requires_grad` flags and its `.grad`.
    """
    if isinstance(model, nn.Module):
        return Net(model).frozen()
    if isinstance(model, Frozen):
        return model
    if not callable(model):
        refuse("model", model, "a torch.nn.Module or a function: images to logits")
    return lambda x: _checked(model(x), x)


def _widened(logits: Tensor) -> Tensor:
    """Return half-precision logits in single precision: margins, losses and weights need the digits."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _checked(logits: Tensor, x: Tensor) -> Tensor:
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(x) or logits.shape[1] < 2:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        refuse("model output", got, f"logits of shape ({len(x)}, classes), with at least 2 classes")
    return logits
