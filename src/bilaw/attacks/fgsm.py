"""Single-step attacks: PGD with one step."""

from __future__ import annotations

from bilaw.attacks.pgd import PGD
from bilaw.errors import number_at_least


def fgsm(eps: float, norm: str = "linf", objective: str = "ce") -> PGD:
    """Return FGSM (Goodfellow et al. 2015): one step of eps from x itself.

    >>> fgsm(0.1).start, fgsm(0.1).step_size
    ('zero', 0.1)
    """
    return PGD(eps, norm, steps=1, step_size=eps or None, start="zero", objective=objective)


def fast_fgsm(eps: float, norm: str = "linf", objective: str = "ce") -> PGD:
    """Return F-FGSM (Wong et al. 2020): a uniform start, one step of 1.25 eps, and back into the ball."""
    return PGD(
        eps,
        norm,
        steps=1,
        step_size=1.25 * number_at_least("eps", eps, 0) or None,
        start="uniform",
        objective=objective,
    )
