"""BiLAW's scheme: omega_mu, with mu learned from the gradient of the validation loss."""

from __future__ import annotations

import torch
from torch import Tensor

from bilaw.errors import refuse
from bilaw.types import Adversarial, Terms
from bilaw.weighting.omega import Omega


class Learned:
    """omega_mu(features), mu stepped by any PyTorch optimiser on line 6 of Algorithm 1."""

    def __init__(self, omega: Omega, optimizer: torch.optim.Optimizer) -> None:
        self.omega, self.optimizer = omega, optimizer
        self.mu = [p for group in optimizer.param_groups for p in group["params"]]
        if not all(p.requires_grad for p in self.mu):
            refuse("network", "with frozen parameters", "one to be trained (Omega alone is the frozen scheme)")
        if not {*map(id, self.mu)} <= {*map(id, omega.network.parameters())}:
            refuse(
                "optimizer", type(optimizer).__name__, "an optimiser of the weight network's parameters and no others"
            )

    @property
    def normalised(self) -> bool:
        """Return whether weights are divided by their sum."""
        return self.omega.normalised

    @property
    def reads(self) -> frozenset[str]:
        """Return which logits the weights depend on."""
        return self.omega.reads

    def __call__(self, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
        """Return raw weights, attached to mu."""
        return self.omega(terms, adversarial, y)

    def learn(self, w: Tensor, s: Tensor, beta: float) -> Learned:
        """Step mu, and return the scheme with the new mu.

        dL_val/dw_j = -beta s_j, so -beta sum_j w_j(mu) s_j has the validation loss's gradient with respect
        to mu. Differentiating the normalisation inside w gives METHOD's form of it,
        -beta sum_j w_j (s_j - sum_i w_i s_i) d log omega_j / dmu.
        """
        # s has the classifier's precision, w that of mu.
        gradients = torch.autograd.grad(-beta * (w @ s.to(w.dtype)), self.mu)
        for parameter, gradient in zip(self.mu, gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        return self
