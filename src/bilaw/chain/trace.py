"""Reading a chain of known layers off a module; whatever else it is made of, it is no chain."""

from __future__ import annotations

import copy
import operator
from collections.abc import Container
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.nn import functional as F

from bilaw.models.normalize import Normalize


class Traced(NamedTuple):
    """One layer: what it does, the module whose parameters it takes ("" for none), and its settings."""

    kind: str
    name: str = ""
    settings: dict[str, Any] = {}  # noqa: RUF012 - never written to


class NotAChainError(Exception):
    """Something that is not known, or that has two inputs."""


def trace(module: nn.Module) -> list[Traced] | None:
    """Return the layers of `module` in eval mode, first to last, or None where it is no chain of known ones.

    >>> trace(nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.ReLU()))[1:]
    [Traced(kind='linear', name='1', settings={}), Traced(kind='relu', name='', settings={})]
    """
    if hooked(module) or not any(isinstance(part, nn.Conv2d | nn.Linear) for part in module.modules()):
        return None
    names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    if len(names) != len(list(module.parameters())):
        return None  # a tied parameter has two names, of which theta knows one
    # Tracing runs the module's own forward, which may count its calls or move buffers: those of a copy.
    shared = {id(p): p for p in module.parameters()}
    with torch.random.fork_rng(devices=[]):
        try:
            copied = copy.deepcopy(module, shared).eval()
            if any(part.training for part in copied.modules()):
                return None  # a `train` of its own that keeps some parts, dropout perhaps, in train mode
            held = {**dict(copied.named_parameters()), **dict(copied.named_buffers())}
            return _chain(_Tracer().trace(copied), dict(copied.named_modules()), held)
        except Exception:  # a forward that is more than its layers cannot be traced, in as many ways as there are
            return None


def hooked(module: nn.Module) -> bool:
    """Tell whether somebody wants to know of the module's own calls, or its parameters are computed."""
    return any(
        part._forward_hooks
        or part._forward_pre_hooks
        or part._backward_hooks
        or part._backward_pre_hooks
        or hasattr(part, "parametrizations")
        for part in module.modules()
    )


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Normalize) or super().is_leaf_module(m, module_qualified_name)


def _chain(graph: fx.Graph, modules: dict[str, nn.Module], held: Container[str]) -> list[Traced]:
    nodes = list(graph.nodes)
    if [node.op for node in nodes].count("placeholder") != 1 or nodes[0].op != "placeholder":
        raise NotAChainError
    found: list[Traced] = []
    line = [node for node in nodes if node.op != "get_attr" and not _counts(node)]
    for before, node in pairwise(line):
        if node.args[:1] != (before,) or sum(not _counts(user) for user in before.users) != 1:
            raise NotAChainError
        if node.op == "output":
            return found
        if node.op == "call_module":
            found += _of_module(node, modules[str(node.target)])
        else:
            found += _of_function(node, held)
    raise NotAChainError


def _counts(node: Any) -> bool:
    """Tell whether a node is but x.size(0), x.shape or x.shape[0], as views of users' own have it."""
    if not isinstance(node, fx.Node):
        return False
    return (
        (node.target == "size" and node.args[1:] == (0,))
        or (node.target is getattr and node.args[1:] == ("shape",))
        or (node.target is operator.getitem and _counts(node.args[0]) and node.args[1:] == (0,))
    )


def _of_module(node: fx.Node, module: nn.Module) -> list[Traced]:
    if len(node.args) != 1 or node.kwargs:
        raise NotAChainError
    name = str(node.target)
    if type(module) is nn.Conv2d and module.padding_mode == "zeros" and not isinstance(module.padding, str):
        settings = {"stride": module.stride, "padding": module.padding}
        return [Traced("conv", name, {**settings, "dilation": module.dilation, "groups": module.groups})]
    if type(module) is nn.BatchNorm2d and module.running_mean is not None:
        return [Traced("norm", name, {"eps": module.eps})]
    if type(module) is nn.MaxPool2d:
        pool = module.stride, module.padding, module.dilation, module.ceil_mode, module.return_indices
        return [_pooling(module.kernel_size, *pool)]
    if type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        return [Traced("flatten")]
    if type(module) in KINDS:
        kind = KINDS[type(module)]
        return [Traced(kind, name if kind in ("linear", "scale") else "")] if kind else []
    raise NotAChainError


KINDS = {nn.Linear: "linear", nn.ReLU: "relu", Normalize: "scale", nn.Identity: "", nn.Dropout: "", nn.Dropout2d: ""}
RELU = (F.relu, torch.relu, "relu")
FLATTEN = (torch.flatten, "flatten")
ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv)


def _of_function(node: fx.Node, held: Container[str]) -> list[Traced]:
    rest, given = node.args[1:], {key: value for key, value in node.kwargs.items() if key != "inplace"}
    if node.target in RELU and not given and rest in ((), (False,), (True,)):
        return [Traced("relu")]
    if node.target in FLATTEN and (rest, given) in (((1,), {}), ((), {"start_dim": 1})):
        return [Traced("flatten")]
    if node.target in ("view", "reshape") and not given and len(rest) == 2 and (rest[0] == -1 or _counts(rest[0])):
        return [Traced("flatten")]  # if that is what it is: the logits are compared
    if node.target is F.max_pool2d:
        return [_pooling(*rest, **given)]
    if node.target in ARITHMETIC and not given and isinstance(rest[0], int | float):
        return [Traced("arithmetic", settings={"function": node.target, "operand": rest[0]})]
    if node.target in ARITHMETIC and not given and isinstance(rest[0], fx.Node) and str(rest[0].target) in held:
        return [Traced("arithmetic", str(rest[0].target), {"function": node.target})]
    raise NotAChainError


def _pooling(
    size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: Any = False,
    return_indices: Any = False,
) -> Traced:
    """Return a max-pooling of PyTorch's arguments."""
    if dilation not in (1, (1, 1)) or ceil_mode or return_indices:
        raise NotAChainError
    stride = size if stride is None else stride
    return Traced("max-pool", settings={"size": _pair(size), "stride": _pair(stride), "padding": _pair(padding)})


def _pair(value: Any) -> tuple[int, int]:
    rows, columns = value if isinstance(value, tuple) else (value, value)
    return int(rows), int(columns)
