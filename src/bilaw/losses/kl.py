"""The divergence between what a classifier says of two inputs."""

import torch
from torch import Tensor


def kl(logits: Tensor, logits_adv: Tensor) -> Tensor:
    """Return KL(p || q) = sum_i p_i log(p_i / q_i) for each row, q being p_adv: (B, k), (B, k) -> (B,).

    With d_i = log p_i - log q_i, the terms p_i d_i cancel almost wholly when q is close to p, and rounding is all
    that is left. Since sum_i (q_i - p_i) = 0 and q_i = p_i exp(-d_i), the same sum is that of the terms
    p_i (d_i + exp(-d_i) - 1), none of them negative: nothing cancels. Differences of the KL between nearby
    parameters (`derivatives.central`) need those digits.
    """
    log_p, log_q = logits.log_softmax(dim=1), logits_adv.log_softmax(dim=1)
    p, d = log_p.exp(), log_p - log_q
    near = d.clamp(-1, 1)  # far apart nothing cancels, and exp(-d) could overflow
    return torch.where(d.abs() < 1, p * (near + torch.expm1(-near)), p * d + (log_q.exp() - p)).sum(dim=1)
