"""What ends a run early, and what is watched so that it does not go wrong unseen."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torch import Tensor


class Interrupted(Exception):
    """Whoever runs the training asked it to stop; with a run folder, all it did is saved."""

    def __init__(self, path: Path | None, epoch: int, step: int) -> None:
        super().__init__(f"stopped in epoch {epoch + 1} after step {step}")
        self.path, self.epoch, self.step = path, epoch, step


class Diverged(ArithmeticError):
    """The loss or the weights are no longer numbers."""

    def __init__(self, what: str, epoch: int, step: int, index: Tensor, checkpoint: Path | None) -> None:
        self.what, self.epoch, self.step, self.index, self.checkpoint = what, epoch, step, index.cpu(), checkpoint
        shown = ", ".join(map(str, self.index[:8].tolist())) + (", ..." if len(self.index) > 8 else "")
        kept = f"the last good checkpoint is {checkpoint}" if checkpoint else "there is no checkpoint of this run"
        super().__init__(
            f"training diverged: {what} in epoch {epoch + 1}, step {step + 1}, on the samples {shown}; {kept}. "
            "Lower optim.lr, or set optim.clip"
        )


class Look(NamedTuple):
    """Accuracies on the *select* split."""

    epoch: int
    clean: float
    robust: float  # under PGD
    one_step: float  # under F-FGSM; NaN where no role attacks with one step
    lost: float = 0.0  # share of the points judged whose logits are no numbers, where that is highest


def overfits(look: Look, peak: Look, drop: float) -> bool:
    """Tell catastrophic overfitting (Wong et al. 2020): PGD accuracy falls by `drop`, one-step accuracy does not.

    >>> peak = Look(3, 0.8, 0.5, 0.55)
    >>> overfits(Look(4, 0.8, 0.1, 0.9), peak, 0.2), overfits(Look(4, 0.3, 0.1, 0.2), peak, 0.2)
    (True, False)
    """
    return peak.robust - look.robust >= drop and look.one_step >= peak.one_step - drop / 4


def at_chance(clean: float, best: float, classes: int) -> bool:
    """Tell a classifier that had learned something and lost it: clean accuracy back near that of guessing.

    >>> at_chance(0.1, 0.77, classes=10), at_chance(0.1, 0.1, classes=10), at_chance(0.7, 0.77, classes=10)
    (True, False, False)
    """
    return clean <= 1.2 / classes and best >= 1.5 / classes
