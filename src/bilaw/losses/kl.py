"""The divergence between what a classifier says of two inputs."""

from torch import Tensor
from torch.nn import functional as F


def kl(logits: Tensor, logits_adv: Tensor) -> Tensor:
    """Return KL(p || p_adv) for each row: (B, k), (B, k) -> (B,)."""
    log_p, log_p_adv = logits.log_softmax(dim=1), logits_adv.log_softmax(dim=1)
    return F.kl_div(log_p_adv, log_p, log_target=True, reduction="none").sum(dim=1)
