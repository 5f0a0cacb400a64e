"""What a robust accuracy is measured with: a name, and one attack or several, each on the survivors of the last.

A name is one of the table, or made of parts: `pgd-20`, `cw-20` and `kl-20` are PGD with that many steps on the
cross-entropy, the logit margin and the KL; `pgd-20x5` takes the worst of 5 restarts; `weight-aware-20` is PGD on the
weighted loss, with the run's own weight network ("full knowledge"), `weight-aware-20:RUN` with another's ("partial").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bilaw.attacks import NoAttack, fast_fgsm, fgsm, weight_aware_pgd
from bilaw.attacks.autoattack import STANDARD, standard
from bilaw.attacks.pgd import PGD
from bilaw.errors import nearest, refuse
from bilaw.types import Attack
from bilaw.weighting import Omega

CLEAN = "clean"
USUAL = (CLEAN, "pgd-20", "autoattack")
OBJECTIVES = {"pgd": "ce", "cw": "cw", "kl": "kl"}
ITERATED = re.compile(r"(pgd|cw|kl)-([0-9]+)(?:x([0-9]+))?")
WEIGHT_AWARE = re.compile(r"weight-aware-([0-9]+)(?::(.+))?")
PATTERNS = ("pgd-20", "cw-20", "kl-20", "pgd-20x5", "weight-aware-20", "weight-aware-20:RUN")


class Suite(NamedTuple):
    """Attacks that a sample has to survive, all of them, to count as robust."""

    name: str
    attacks: dict[str, Attack]

    def passes(self) -> dict[str, int]:
        """Return how many network passes a sample costs each attack at most, a backward pass counted as two."""
        return {name: passes(attack) for name, attack in self.attacks.items()}


Omegas = Callable[[str | None], Omega]  # a run's folder -> its weight network; None: the own one
SINGLE: Mapping[str, Callable[[float, str], Attack]] = {
    CLEAN: lambda eps, norm: NoAttack(eps),
    "fgsm": fgsm,
    "f-fgsm": fast_fgsm,
    **STANDARD,
}


def suite(name: str, eps: float, norm: str, omegas: Omegas) -> Suite:
    """Return the attacks that `name` stands for.

    >>> list(suite("autoattack", 0.1, "linf", omegas=None).attacks)
    ['apgd-ce', 'apgd-t', 'fab-t', 'square']
    """
    if name == "autoattack":
        return Suite(name, standard(eps, norm))
    if name in SINGLE:
        return Suite(name, {name: SINGLE[name](eps, norm)})
    if found := ITERATED.fullmatch(name):
        kind, steps, restarts = found.groups()
        start = "gaussian" if kind == "kl" else "uniform"
        made = PGD(eps, norm, steps=int(steps), start=start, objective=OBJECTIVES[kind], restarts=int(restarts or 1))
        return Suite(name, {name: made})
    if found := WEIGHT_AWARE.fullmatch(name):
        steps, run = found.groups()
        return Suite(name, {name: weight_aware_pgd(eps, weight=omegas(run).at, norm=norm, steps=int(steps))})
    known = ("autoattack", *SINGLE, *PATTERNS)
    return refuse("attacks", name, f"names such as {', '.join(known)}{nearest(name, known)}")


def passes(attack: Attack) -> int:
    """Return how many network passes `attack` costs a sample at most, where it says so; else 1."""
    return int(getattr(attack, "passes", 1))
