"""The heuristics as the paper sets them and as their authors' code does (METHOD section 4, PEERS).

`paper` normalises every scheme per batch. `official` follows the authors' CIFAR settings: GAIRAT has batch mean 1
(the same as normalising), WMMR and MAIL are not normalised and differ between AT and TRADES.
"""

from __future__ import annotations

from dataclasses import dataclass

from bilaw.errors import look_up, number_at_least, refuse
from bilaw.types import Scheme
from bilaw.weighting.gairat import Gairat
from bilaw.weighting.mail import Mail
from bilaw.weighting.uniform import Uniform
from bilaw.weighting.wmmr import Wmmr


@dataclass(frozen=True)
class Weighting:
    """A scheme, and the first fraction of the epochs in which all samples weigh the same."""

    scheme: Scheme
    burn_in: float = 0.0

    def __post_init__(self) -> None:
        if number_at_least("burn_in", self.burn_in, 0) > 1:
            refuse("burn_in", self.burn_in, "a fraction of the epochs, from 0 to 1")

    def at(self, epoch: int, epochs: int) -> Scheme:
        """Return the scheme in force in `epoch` (from 0) of `epochs`.

        >>> [type(Weighting(Gairat(), burn_in=0.5).at(e, 4)).__name__ for e in range(4)]
        ['Uniform', 'Uniform', 'Gairat', 'Gairat']
        """
        return Uniform() if epoch < round(self.burn_in * epochs, 6) else self.scheme


PRESETS: dict[str, dict[tuple[str, str], Weighting]] = {
    "paper": {
        (scheme, loss): weighting
        for loss in ("adversarial-ce", "trades", "mart")
        for scheme, weighting in {
            "gairat": Weighting(Gairat(), burn_in=0.30),
            "wmmr": Weighting(Wmmr(a=0.1)),
            "mail": Weighting(Mail(g=5, b=0.05), burn_in=0.63),
        }.items()
    },
    "official": {
        ("gairat", "adversarial-ce"): Weighting(Gairat(), burn_in=0.50),
        ("wmmr", "adversarial-ce"): Weighting(Wmmr(a=0.5, normalised=False)),
        ("wmmr", "trades"): Weighting(Wmmr(a=2, normalised=False)),
        ("mail", "adversarial-ce"): Weighting(Mail(g=10, b=-0.5, scale=3, normalised=False), burn_in=76 / 120),
        ("mail", "trades"): Weighting(Mail(g=2, b=0, scale=3, normalised=False), burn_in=76 / 120),
    },
}


def preset(scheme: str, loss: str = "adversarial-ce", settings: str = "paper") -> Weighting:
    """Return a heuristic as the `paper` or its `official` code sets it, for one of the two losses.

    >>> preset("mail", "trades", "official").scheme
    Mail(g=2, b=0, scale=3, normalised=False, margin_from='adversarial')
    """
    table = look_up("preset", settings, PRESETS)
    if (scheme, loss) not in list(table):
        known = ", ".join(f"{s} with {named}" for s, named in table)
        refuse("scheme.name with loss.name", f"{scheme} with {loss}", f"one of {known} in the {settings} settings")
    return table[scheme, loss]
