"""What is to be measured: the settings of an evaluation, checked once, here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bilaw.attacks.norms import NORMS
from bilaw.config import PRECISIONS, check_seed
from bilaw.errors import look_up, number_at_least, refuse, whole_at_least
from bilaw.evaluation.suites import CLEAN, USUAL

SAMPLES = 1000  # METHOD section 5: AutoAttack on 1,000 fixed test samples by default


@dataclass(frozen=True)
class Plan:
    """An evaluation: attacks by name (`evaluation.suites`), in the ball of radius `eps`, on the first `samples`.

    `samples` None means all of them. `audit` is how many samples the audit's own attacks look at (0: no audit, and
    every number is marked as not audited). `precision` is that of the passes attacks climb by; what they find is judged
    in float32 whatever it is.
    """

    eps: float
    norm: str = "linf"
    attacks: tuple[str, ...] = USUAL
    samples: int | None = SAMPLES
    seed: int = 0
    batch: int = 128
    audit: int = 200
    points: bool = False
    precision: str = "fp32"

    def __post_init__(self) -> None:
        number_at_least("eps", self.eps, 0)
        look_up("norm", self.norm, NORMS)
        if not isinstance(self.attacks, tuple) or not all(isinstance(name, str) for name in self.attacks):
            refuse("attacks", self.attacks, "a tuple of names, such as ('clean', 'pgd-20', 'autoattack')")
        if len(set(self.attacks)) < len(self.attacks):
            refuse("attacks", self.attacks, "each name once")
        if self.samples is not None:
            whole_at_least("samples", self.samples, 1)
        check_seed("seed", self.seed)
        whole_at_least("batch", self.batch, 1)
        whole_at_least("audit", self.audit, 0)
        if not isinstance(self.points, bool):
            refuse("points", self.points, "true or false")
        look_up("precision", self.precision, PRECISIONS)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the attacks, clean accuracy first: no other number can be read without it.

        >>> Plan(0.1, attacks=("pgd-20",)).names
        ('clean', 'pgd-20')
        """
        return (CLEAN, *(name for name in self.attacks if name != CLEAN))

    def settings(self) -> dict[str, Any]:
        """Return what the numbers depend on."""
        return {**asdict(self), "attacks": list(self.names)}
