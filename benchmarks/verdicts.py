"""Every side's points judged alike, by us: eval mode, float32, inside the ball and the box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bilaw.attacks import NORMS


@torch.no_grad()
def robust(module: nn.Module, x: Tensor, y: Tensor, found: Tensor, eps: float, norm: str) -> Tensor:
    """Return which samples are still classified correctly, or were moved too far."""
    flat = found.flatten(1)
    inside = NORMS[norm].size(found - x) <= eps * (1 + 1e-5) + 1e-6
    inside &= (flat.amin(dim=1) >= 0) & (flat.amax(dim=1) <= 1) & flat.isfinite().all(dim=1)
    wrong = torch.cat([module(part).argmax(dim=1) for part in found.split(250)]) != y
    return ~(wrong & inside)


def letters(verdicts: Tensor) -> str:
    """Return verdicts as text, a 1 for each robust sample, so that they travel between processes."""
    return "".join("1" if one else "0" for one in verdicts.tolist())


def compared(verdicts: Mapping[str, str], ours: str) -> dict[str, dict[str, Any]]:
    """Return, side by side, the robust share and which samples only we or only they break.

    >>> compared({"we": "0110", "they": "0101"}, "we")["they"]
    {'robust': 0.5, 'only bilaw breaks': 1, 'only it breaks': 1}
    """
    told: dict[str, dict[str, Any]] = {}
    for name, theirs in verdicts.items():
        told[name] = {"robust": theirs.count("1") / len(theirs)}
        if name != ours:
            pairs = list(zip(verdicts[ours], theirs, strict=True))
            told[name] |= {"only bilaw breaks": pairs.count(("0", "1")), "only it breaks": pairs.count(("1", "0"))}
    return told
