"""The layers of a chain with the weights they have now: frozen, folded, in the memory format that is cheapest."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bilaw.chain.thin import THIN, thin_conv
from bilaw.chain.trace import Traced

Pair = tuple[int, int]


@dataclass(frozen=True)
class Conv:
    """A convolution, with the BatchNorm and the ReLU behind it."""

    weight: Tensor
    bias: Tensor | None
    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int
    relu: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Return what the module's own layers would."""
        return self.padded(x, self.padding)

    def padded(self, x: Tensor, padding: Pair) -> Tensor:
        """Return the same with another padding, as a part of an image may want."""
        x, how = x.to(self.weight.dtype), (self.stride, padding, self.dilation)
        if x.requires_grad and self.weight.shape[1] <= THIN and self.groups == 1 and x.device.type == "cpu":
            out = thin_conv(x, self.weight, self.bias, *how)
        else:
            out = F.conv2d(x, self.weight, self.bias, *how, self.groups)
        return out.relu_() if self.relu else out


@dataclass(frozen=True)
class Linear:
    """A linear layer, and the ReLU behind it."""

    weight: Tensor
    bias: Tensor | None
    relu: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Return what the module's own layers would."""
        out = F.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return out.relu_() if self.relu else out


@dataclass(frozen=True)
class Affine:
    """A normalisation that no convolution takes up: x scale + shift, channel by channel."""

    scale: Tensor
    shift: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Return what the module's own layer would."""
        return x * self.scale + self.shift


@dataclass(frozen=True)
class Relu:
    """A ReLU with no layer before it that could take it up."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return max(x, 0)."""
        return x.relu()


@dataclass(frozen=True)
class MaxPool:
    """A max-pooling."""

    size: Pair
    stride: Pair
    padding: Pair

    def __call__(self, x: Tensor) -> Tensor:
        """Return what the module's own layer would."""
        return F.max_pool2d(x, self.size, self.stride, self.padding)


@dataclass(frozen=True)
class Flatten:
    """Images to rows; `by_pixel` as they lie in memory, where the columns of the linear layer behind it lie so, too."""

    by_pixel: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Return (B, n)."""
        return x.permute(0, 2, 3, 1).flatten(1) if self.by_pixel else x.flatten(1)


Layer = Conv | Linear | Affine | Relu | MaxPool | Flatten


class Chain:
    """A classifier as a list of layers; convolutions compute in `dtype`, the logits are of the parameters' own."""

    def __init__(self, traced: Sequence[Traced], state: Mapping[str, Tensor], dtype: torch.dtype | None = None) -> None:
        layers: list[Layer] = []
        for one in traced:
            held = {
                name: state[f"{one.name}.{name}"].detach() for name in PARTS[one.kind] if f"{one.name}.{name}" in state
            }
            _add(layers, one, held, state)
        self.own = dtype_of(state)
        self.layers = [_placed(layer, dtype or self.own) for layer in layers]

    def __call__(self, x: Tensor) -> Tensor:
        """Return logits (B, k) of images (B, ...)."""
        for layer in self.layers:
            x = layer(x)
        return x.to(self.own)


def dtype_of(state: Mapping[str, Tensor]) -> torch.dtype:
    """Return the precision of parameters and buffers."""
    return next(value.dtype for value in state.values() if value.is_floating_point())


PARTS = {
    "conv": ("weight", "bias"),
    "linear": ("weight", "bias"),
    "norm": ("weight", "bias", "running_mean", "running_var"),
    "scale": ("mean", "std"),
    **dict.fromkeys(("relu", "max-pool", "flatten", "arithmetic"), ()),
}


def _add(layers: list[Layer], one: Traced, held: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Add a layer, or put it into the last one."""
    last = layers[-1] if layers else None
    if one.kind == "conv":
        layers.append(Conv(held["weight"], held.get("bias"), **one.settings))
    elif one.kind == "linear":
        weight = held["weight"]
        if isinstance(last, Flatten) and (channels := _channels(layers[:-1])):
            weight = weight.view(len(weight), channels, -1).transpose(1, 2).flatten(1)
            layers[-1] = Flatten(by_pixel=True)
        layers.append(Linear(weight, held.get("bias")))
    elif one.kind == "relu" and isinstance(last, Conv | Linear):
        layers[-1] = replace(last, relu=True)
    elif one.kind == "relu":
        layers.append(Relu())
    elif one.kind == "max-pool":
        layers.append(MaxPool(**one.settings))
    elif one.kind == "flatten":
        layers.append(Flatten())
    elif one.kind == "norm" and isinstance(last, Conv) and not last.relu:
        layers[-1] = _folded(last, *_normalisation(held, one.settings["eps"]))
    elif one.kind == "norm":
        scale, shift = _normalisation(held, one.settings["eps"])
        layers.append(Affine(scale.view(-1, 1, 1), shift.view(-1, 1, 1)))
    elif one.kind == "scale":
        layers.append(Affine(1 / held["std"], -held["mean"] / held["std"]))
    else:
        number = torch.as_tensor(one.settings.get("operand", 0), dtype=dtype_of(state))
        operand = state[one.name].detach() if one.name else number
        layers.append(_arithmetic(one.settings["function"], operand))


def _normalisation(held: Mapping[str, Tensor], eps: float) -> tuple[Tensor, Tensor]:
    """Return BatchNorm's scale and shift in eval mode, one for each channel."""
    mean, spread = held["running_mean"], (held["running_var"] + eps).sqrt()
    scale = held["weight"] / spread if "weight" in held else 1 / spread
    return scale, held.get("bias", 0) - mean * scale


def _folded(conv: Conv, scale: Tensor, shift: Tensor) -> Conv:
    bias = shift if conv.bias is None else conv.bias * scale + shift
    return replace(conv, weight=conv.weight * scale.view(-1, 1, 1, 1), bias=bias)


def _channels(layers: Sequence[Layer]) -> int | None:
    """Return how many channels the last layer gives, if it is clear that it gives images."""
    for layer in reversed(layers):
        if isinstance(layer, Conv):
            return len(layer.weight)
        if isinstance(layer, Linear | Flatten):
            return None
    return None


def _arithmetic(function: Any, operand: Tensor) -> Affine:
    """Return the sum, the difference, the product or the quotient of x and a number."""
    one, nothing = torch.ones_like(operand), torch.zeros_like(operand)
    if function in (operator.add, operator.sub):
        return Affine(one, operand.clone() if function is operator.add else -operand)
    return Affine(operand.clone() if function is operator.mul else 1 / operand, nothing)


def _placed(layer: Layer, dtype: torch.dtype) -> Layer:
    """Return the layer with its weights in `dtype` and, of a convolution, channels last."""
    if not isinstance(layer, Conv | Linear):
        return layer
    weight, bias = layer.weight.to(dtype, copy=True), None if layer.bias is None else layer.bias.to(dtype, copy=True)
    if isinstance(layer, Conv):
        # Not `contiguous`, which leaves the strides of a single channel as they are, and then all that follows.
        weight = torch.empty_like(weight, memory_format=torch.channels_last).copy_(weight)
    return replace(layer, weight=weight, bias=bias)
