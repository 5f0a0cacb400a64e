"""MART (Wang et al. 2020): boosted cross-entropy, and a KL that counts most where the clean x is in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from bilaw.errors import number_at_least
from bilaw.losses.kl import kl
from bilaw.losses.spared import split_spared
from bilaw.types import Adversarial, Batch, LogitsOf, Terms


@dataclass(frozen=True)
class Mart:
    """fixed = 0, robust = BCE(p(x_adv), y) + strength * KL(p(x) || p(x_adv)) * (1 - p_y(x)).

    BCE(p, y) = -log p_y - log(1 - max_{t != y} p_t). Everything that depends on x_adv is robust, so a weight
    multiplies all of it (as with adversarial CE). The attack maximises CE.
    """

    strength: float = 5.0

    attacked: ClassVar[bool] = True
    objective: ClassVar[str] = "ce"
    start: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        number_at_least("strength", self.strength, 0)

    def __call__(self, logits_of: LogitsOf, batch: Batch, adversarial: Adversarial) -> Terms:
        """Return the terms, from one forward of the clean x and one of the adversarial x."""
        logits, logits_adv = logits_of(batch.x), logits_of(adversarial.x)
        doubt = 1 - logits.softmax(dim=1).gather(1, batch.y[:, None])[:, 0]
        bce = F.cross_entropy(logits_adv, batch.y, reduction="none") - log_without_rival(logits_adv, batch.y)
        robust = bce + self.strength * kl(logits, logits_adv) * doubt
        fixed, robust = split_spared(robust, logits_adv, batch.y, adversarial)
        return Terms(fixed, robust, logits, logits_adv)


def log_without_rival(logits: Tensor, y: Tensor) -> Tensor:
    """Return log(1 - max_{t != y} p_t), summed from the other classes so that a sure rival costs no digits."""
    log_p = logits.log_softmax(dim=1)
    rival = log_p.detach().scatter(1, y[:, None], -torch.inf).argmax(dim=1, keepdim=True)
    return log_p.scatter(1, rival, -torch.inf).logsumexp(dim=1)
