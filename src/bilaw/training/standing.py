"""How far a run has come: the few facts that, beside the tensors, a resumed run begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bilaw.training.guards import Look
from bilaw.training.watch import Epoch


@dataclass
class Standing:
    """Where the run is, and what it remembers."""

    epoch: int = 0  # the one in progress
    step: int = 0  # steps done in it
    t: int = 0  # steps done in all
    best: Epoch | None = None
    waited: int = 0  # looks at *select* since then
    peak: Look | None = None  # the look with the highest PGD accuracy under the current attack
    switched: tuple[str, ...] = ()  # roles whose one-step attack became PGD
    warned: tuple[str, ...] = ()  # what has been said once

    def facts(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Standing:
        """Return what `facts` were made of.

        >>> here = Standing(epoch=2, best=Epoch(1, 0.1, 1.0, 0.9, 0.5, 0.4, 0.3), switched=("attack",))
        >>> import json; Standing.of(json.loads(json.dumps(here.facts()))) == here
        True
        """
        best, peak = facts["best"], facts["peak"]
        tuples = {
            "best": best and Epoch(*best),
            "peak": peak and Look(*peak),
            "switched": tuple(facts["switched"]),
            "warned": tuple(facts["warned"]),
        }
        return cls(**{**facts, **tuples})
