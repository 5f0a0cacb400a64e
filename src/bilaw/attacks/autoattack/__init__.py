"""AutoAttack (Croce & Hein 2020): four attacks without settings to tune, each on the survivors of the last.

Written from the papers: APGD and the ensemble (ICML 2020), FAB (ICML 2020), Square (Andriushchenko et al., ECCV 2020).
Where those leave a choice, the authors' released settings of the "standard" version hold.
"""

from collections.abc import Callable

from bilaw.attacks.autoattack.apgd import APGD, apgd_ce, apgd_targeted
from bilaw.attacks.autoattack.fab import FAB
from bilaw.attacks.autoattack.square import Square
from bilaw.types import Attack

__all__ = ["APGD", "FAB", "STANDARD", "Square", "apgd_ce", "apgd_targeted", "standard"]

STANDARD: dict[str, Callable[[float, str], Attack]] = {
    "apgd-ce": apgd_ce,
    "apgd-t": apgd_targeted,
    "fab-t": FAB,
    "square": Square,
}


def standard(eps: float, norm: str = "linf") -> dict[str, Attack]:
    """Return the components of AutoAttack standard, in the order they are run.

    >>> list(standard(8 / 255))
    ['apgd-ce', 'apgd-t', 'fab-t', 'square']
    """
    return {name: make(eps, norm) for name, make in STANDARD.items()}
