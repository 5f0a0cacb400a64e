"""The derivative of every sample's robust term along one direction in parameter space.

Line 6 of Algorithm 1 needs s_j = <v, grad_theta robust_j(theta)> for each sample j of a batch. That is a single
directional derivative of a vector-valued function: one forward-mode pass, and no double backward.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from bilaw.errors import refuse

PerSample = Callable[[Mapping[str, Tensor]], Tensor]


def exact(f: PerSample, theta: Mapping[str, Tensor], v: Mapping[str, Tensor]) -> Tensor:
    """Return d f(theta + h v) / dh at h = 0 by forward-mode differentiation: (B,)."""
    load_forward_mode()
    # Of attention's kernels only the one made of plain operations has a forward-mode rule.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), forward_ad.dual_level():
        dual = {name: _dual(p.detach(), v[name]) for name, p in theta.items()}
        try:
            primal, tangent = _parts(f(dual))
        except NotImplementedError as error:  # an operation without a forward-mode rule
            reason = str(error).split(". ")[0]
            refuse("derivative", "exact", f"models whose every operation has one; use 'central' here ({reason})")
    return torch.zeros_like(primal) if tangent is None else tangent


def central(f: PerSample, theta: Mapping[str, Tensor], v: Mapping[str, Tensor], length: float = 1e-4) -> Tensor:
    """Return the same by a central difference, moving theta by `length` either way: two plain forwards."""
    narrow = {p.dtype for p in theta.values()} - {torch.float32, torch.float64}
    if narrow:
        refuse("derivative", "central", f"float32 or float64 parameters: in {narrow.pop()} the differences round away")
    largest = torch.stack([d.abs().amax() for d in v.values() if d.numel()]).amax()
    scale = torch.where(
        largest > 0, largest, torch.ones_like(largest)
    )  # before squaring, which could over- or underflow
    norm = torch.stack([(d / scale).square().sum() for d in v.values()]).sum().sqrt()
    unit = {name: d / scale / torch.where(largest > 0, norm, torch.ones_like(norm)) for name, d in v.items()}
    with torch.no_grad():
        ahead = f({name: p.detach() + length * unit[name] for name, p in theta.items()})
        behind = f({name: p.detach() - length * unit[name] for name, p in theta.items()})
        return (ahead - behind) / (2 * length) * norm * scale


DERIVATIVES = {"exact": exact, "central": central}


# The next two give PyTorch's untyped functions their types.
_dual: Callable[[Tensor, Tensor], Tensor] = forward_ad.make_dual
_parts: Callable[[Tensor], tuple[Tensor, Tensor | None]] = forward_ad.unpack_dual


@cache
def load_forward_mode() -> None:
    """Let PyTorch load its forward-mode rules, once, without the deprecation warning it gives itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with forward_ad.dual_level():
            _dual(torch.zeros(1), torch.ones(1))
