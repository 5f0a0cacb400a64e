"""Our sides: the one place where a benchmark says how it calls bilaw, and under which allocator.

`bilaw` is the package as `import bilaw` gives it, on the plain module. `bilaw, command line` has the allocator's
settings that our own command line runs with. `bf16` climbs in bfloat16; every verdict is float32's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from machine import KEEPING
from torch import Tensor, nn

from bilaw.attacks.autoattack import standard
from bilaw.margins import misclassified
from bilaw.net import Net
from bilaw.rng import generator
from bilaw.types import Attack, Batch, LogitsOf

VARIANTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "bilaw": ("fp32", {}),
    "bilaw, allocator kept": ("fp32", KEEPING),
    "bilaw, bf16": ("bf16", KEEPING),
}


def classifier(module: nn.Module, precision: str) -> nn.Module | LogitsOf:
    """Return what our attacks are given."""
    return module if precision == "fp32" else Net(module, bf16_attacks=True).frozen()


@torch.no_grad()
def right(module: nn.Module, x: Tensor, y: Tensor, batch: int) -> Tensor:
    """Return whether each image is classified correctly, in float32."""
    logits = torch.cat([module(part) for part in x.split(batch)])
    return ~misclassified(logits, y)


def attacked(module: nn.Module, attack: Attack, x: Tensor, y: Tensor, case: Mapping[str, Any], word: str) -> Tensor:
    """Return one attack's points, batch by batch."""
    climbed, parts = classifier(module, case["precision"]), []
    for start in range(0, len(x), case["batch"]):
        part = torch.arange(start, min(start + case["batch"], len(x)))
        parts.append(attack(climbed, Batch(x[part], y[part], part), generator(0, word, start)).x)
    return torch.cat(parts)


def ensemble(module: nn.Module, x: Tensor, y: Tensor, case: Mapping[str, Any]) -> Tensor:
    """Return AutoAttack's points, or those of the one component `part`: each attack on the survivors of the last."""
    attacks = standard(case["eps"], case["norm"])
    chosen = attacks if case["part"] == "all" else {case["part"]: attacks[case["part"]]}
    found, left = x.clone(), torch.arange(len(x))
    for name, attack in chosen.items():
        found[left] = attacked(module, attack, x[left], y[left], case, name)
        left = left[right(module, found[left], y[left], case["batch"])]
        if not len(left):
            break
    return found
