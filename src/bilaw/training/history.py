"""What each sample weighed, epoch by epoch: two bytes a value."""

from __future__ import annotations

import torch
from torch import Tensor

from bilaw.algorithm import Record
from bilaw.margins import margin
from bilaw.runs import WEIGHT_VALUES
from bilaw.types import Batch


class Seen:
    """The weight and margins of every sample as this epoch's step saw them; NaN where none did.

    Weights are relative: B w_i, so that 1 means "as much as all others" whatever the batch size.
    """

    def __init__(self, samples: int, device: torch.device | str) -> None:
        self.table = torch.full((len(WEIGHT_VALUES), samples), torch.nan, dtype=torch.float16, device=device)

    def add(self, batch: Batch, record: Record) -> None:
        """Note a step; nothing is read back from the device."""
        rows = [record.w * len(record.w)]
        for logits in (record.terms.logits, record.terms.logits_adv):
            rows.append(torch.full_like(rows[0], torch.nan) if logits is None else margin(logits, batch.y))
        self.table[:, batch.index] = torch.stack(rows).to(self.table.dtype)

    def clear(self) -> None:
        """Begin an epoch."""
        self.table.fill_(torch.nan)

    def rows(self, places: Tensor) -> Tensor:
        """Return (value, sample) of the samples at `places`, on the host."""
        return self.table[:, places.to(self.table.device)].cpu()
