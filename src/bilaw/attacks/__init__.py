"""Attacks: points inside the ball and inside [0, 1] that the classifier gets wrong.

A new attack is one file here and one line in `ATTACKS`. Every entry is called with `eps` and the attack's own
settings and returns an attack, called in turn with a classifier, a batch and a generator. One that takes `objective`
(what a loss would have it climb), and beside it only settings under `[attack]`, can be trained with by its name.
"""

from bilaw.attacks.autoattack import STANDARD
from bilaw.attacks.fgsm import fast_fgsm, fgsm
from bilaw.attacks.none import NoAttack
from bilaw.attacks.norms import NORMS
from bilaw.attacks.objectives import OBJECTIVES
from bilaw.attacks.pgd import PGD
from bilaw.attacks.starts import STARTS
from bilaw.attacks.top_fraction import TopFraction
from bilaw.attacks.weight_aware import weight_aware_pgd
from bilaw.signatures import Make

ATTACKS: dict[str, Make] = {
    "none": NoAttack,
    "fgsm": fgsm,
    "f-fgsm": fast_fgsm,
    "pgd": PGD,
    "weight-aware-pgd": weight_aware_pgd,
    **STANDARD,
}

__all__ = [
    "ATTACKS",
    "NORMS",
    "OBJECTIVES",
    "PGD",
    "STARTS",
    "NoAttack",
    "TopFraction",
    "fast_fgsm",
    "fgsm",
    "weight_aware_pgd",
]
