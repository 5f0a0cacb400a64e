"""From raw weights to the w of the step objective mean_i(fixed_i) + sum_i w_i robust_i."""

from __future__ import annotations

import torch
from torch import Tensor

from bilaw.checks import describe
from bilaw.errors import refuse


class BadWeights(ValueError):
    """Raw weights that are no weights: NaN, infinite or negative. While training, the sign of divergence."""


def normalise(raw: Tensor, by_sum: bool = True) -> Tensor:
    """Return w_i = raw_i / sum_j raw_j (the paper), or raw_i / B for official codes that do not normalise.

    A batch whose weights are all zero says nothing about its samples: it counts uniformly.

    >>> normalise(torch.tensor([1.0, 3.0])), normalise(torch.zeros(2))
    (tensor([0.2500, 0.7500]), tensor([0.5000, 0.5000]))
    """
    if raw.ndim != 1 or len(raw) == 0:
        refuse("weights", describe(raw), "one number per sample, a tensor of shape (batch,)")
    bad = ~(raw.detach() >= 0) | raw.detach().isinf()  # the negation also catches NaN
    if bool(bad.any()):
        places = bad.nonzero().flatten()[:8].tolist()
        value = raw.detach()[places[0]].item()
        raise BadWeights(
            f"weights = {value!r} at place {places[0]} of the batch ({int(bad.sum())} of {len(raw)} are bad, at "
            f"{places}) is not accepted; a weight is a finite number >= 0. If the loss is not a number either, "
            "training has diverged: lower the learning rate"
        )
    largest = raw.detach().amax()
    # Dividing by the largest first: a sum of very small or very large weights neither vanishes nor overflows.
    scaled = torch.where(largest > 0, raw / largest.clamp_min(torch.finfo(raw.dtype).tiny), torch.ones_like(raw))
    if by_sum:
        return scaled / scaled.sum()
    return torch.where(largest > 0, raw, torch.ones_like(raw)) / len(raw)
