"""Training losses, per sample: nothing reduces them but the step.

A new loss is one file here and one line in `LOSSES`. Those settings under `[loss]` that it takes are passed by name.
"""

from bilaw.losses.adversarial_ce import AdversarialCE
from bilaw.losses.mart import Mart
from bilaw.losses.plain import Plain
from bilaw.losses.trades import Trades
from bilaw.signatures import Make

LOSSES: dict[str, Make] = {
    "plain": Plain,
    "adversarial-ce": AdversarialCE,
    "trades": Trades,
    "mart": Mart,
}

__all__ = ["LOSSES", "AdversarialCE", "Mart", "Plain", "Trades"]
