"""What each sample weighed, epoch by epoch: two bytes a value."""

from __future__ import annotations

import torch
from torch import Tensor

from bilaw.algorithm import Record
from bilaw.margins import margin
from bilaw.runs import WEIGHT_VALUES
from bilaw.types import Batch
from bilaw.weighting import Omega


class Seen:
    """The weight and margins of every sample as this epoch's step saw them; NaN where none did.

    Weights are relative: B w_i, so that 1 means "as much as all others" whatever the batch size. With a weight network
    there is also what it would give the adversarial x of each sample, in the same measure.
    """

    def __init__(self, samples: int, device: torch.device | str, omega: Omega | None = None) -> None:
        self.omega = omega
        rows = len(WEIGHT_VALUES) + (omega is not None)
        self.table = torch.full((rows, samples), torch.nan, dtype=torch.float16, device=device)

    def add(self, batch: Batch, record: Record) -> None:
        """Note a step; nothing is read back from the device."""
        rows = [record.w * len(record.w)]
        for logits in (record.terms.logits, record.terms.logits_adv):
            rows.append(torch.full_like(rows[0], torch.nan) if logits is None else margin(logits, batch.y))
        if self.omega is not None:
            rows.append(_when_attacked(self.omega, record, batch.y))
        self.table[:, batch.index] = torch.stack(rows).to(self.table.dtype)

    def narrow(self) -> None:
        """Go on as a run began that notes no weights at the adversarial x."""
        self.omega, self.table = None, self.table[: len(WEIGHT_VALUES)].clone()

    def clear(self) -> None:
        """Begin an epoch."""
        self.table.fill_(torch.nan)

    def rows(self, places: Tensor) -> Tensor:
        """Return (value, sample) of the samples at `places`, on the host."""
        return self.table[:, places.to(self.table.device)].cpu()


@torch.no_grad()
def _when_attacked(omega: Omega, record: Record, y: Tensor) -> Tensor:
    """Return the weights at the adversarial x, divided as the batch's own raw weights are."""
    raw = omega.when_attacked(record.terms, y)
    return raw / omega.raw(record.terms, y).mean()
