"""Batches as a pure function of (seed, epoch, step): nothing to save, and any of them can be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor

from bilaw.datasets.augment import PADDING, corners, cut, to_unit
from bilaw.datasets.stores import Store
from bilaw.errors import refuse
from bilaw.rng import generator
from bilaw.types import Batch


class Plan(NamedTuple):
    """What one epoch draws, always on the CPU: every device then sees the same batches."""

    order: Tensor  # (n,) places in the data set, on the host
    places: Tensor  # the same on the device
    shift: Tensor  # (2, n) crop offsets 0..8, on the device; empty without augmentation
    mirror: Tensor  # (n,) bool, on the device; empty without augmentation


class Batches:
    """Batches of the samples `index` of a store; `Batch.index` is the place in the whole store.

    A trailing batch of fewer than `least` samples is dropped: 2 (training: BatchNorm cannot normalise one
    sample), 1 (evaluation: keep everything), `size` (meta: full batches only). A set smaller than `size` is
    one batch, whole. `purpose` keeps the randomness of, say, "train" and "meta" apart.
    """

    def __init__(
        self,
        store: Store,
        index: Tensor | None = None,
        *,
        size: int = 128,
        seed: int = 0,
        purpose: str = "train",
        shuffle: bool = True,
        augment: bool = False,
        least: int = 2,
    ) -> None:
        index = torch.arange(len(store.y)) if index is None else index.cpu().long()
        if size < 1:
            refuse("batch", size, "at least 1")
        if not len(index):
            refuse(f"{purpose} samples", 0, "at least 1")
        if int(index.min()) < 0 or int(index.max()) >= len(store.y):
            refuse(f"{purpose} index", f"{int(index.min())}..{int(index.max())}", f"0..{len(store.y) - 1}")
        self.store, self.index, self.size, self.seed, self.purpose = store, index, size, seed, purpose
        self.shuffle, self.augment = shuffle, augment
        left = len(index) % size
        self.steps = max(1, len(index) // size + (left >= least and left > 0))
        self._planned: tuple[int, Plan] | None = None
        self._corners: tuple[Plan, Tensor] | None = None

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return self.steps

    @property
    def smallest(self) -> int:
        """Return the size of the smallest batch: the last one."""
        return len(self.index[self._span(self.steps - 1)])

    def at(self, epoch: int, step: int) -> Batch:
        """Return batch `step` of `epoch`."""
        plan = self.plan(epoch)
        return self._finish(plan, step, self.store.fetch(self._places(plan)[self._span(step)]))

    def cycle(self, t: int) -> Batch:
        """Return the batch of global step `t`, epoch after epoch without end: the view of the meta set."""
        return self.at(*divmod(t, self.steps))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of `epoch` from step `start`; a streamed store is read one batch ahead."""
        plan = self.plan(epoch)
        spans = [self._places(plan)[self._span(step)] for step in range(start, self.steps)]
        for step, raw in enumerate(self._fetched(spans), start):
            yield self._finish(plan, step, raw)

    def plan(self, epoch: int) -> Plan:
        """Return what `epoch` draws; the last one asked for is kept."""
        kept = self._planned
        if kept is None or kept[0] != epoch:
            kept = self._planned = (epoch, self._draw(epoch))
        return kept[1]

    def _draw(self, epoch: int) -> Plan:
        n, device = len(self.index), self.store.device
        order = self.index
        shift, mirror = torch.empty(2, 0, dtype=torch.int64), torch.empty(0, dtype=torch.bool)
        if self.shuffle:
            drawn = generator(self.seed, "batches", self.purpose, "order", epoch)
            order = order[torch.randperm(n, generator=drawn)]
        if self.augment:
            drawn = generator(self.seed, "batches", self.purpose, "augment", epoch)
            shift = torch.randint(2 * PADDING + 1, (2, n), generator=drawn)
            mirror = torch.randint(2, (n,), generator=drawn).bool()
        return Plan(order, order.to(device), shift.to(device), mirror.to(device))

    def _places(self, plan: Plan) -> Tensor:
        return plan.order if self.store.prefetch else plan.places

    def _corner(self, plan: Plan, raw: Tensor) -> Tensor:
        """Return where each sample's crop of this epoch begins; the last epoch's are kept."""
        if self._corners is None or self._corners[0] is not plan:
            self._corners = plan, corners(raw.shape[1:], self.size, plan.shift[0], plan.shift[1], plan.mirror)
        return self._corners[1]

    def _span(self, step: int) -> slice:
        if not 0 <= step < self.steps:
            refuse("step", step, f"a step of the epoch, 0..{self.steps - 1}")
        return slice(step * self.size, (step + 1) * self.size)

    def _fetched(self, spans: list[Tensor]) -> Iterator[Tensor]:
        if not self.store.prefetch:
            yield from map(self.store.fetch, spans)
            return
        with ThreadPoolExecutor(1, "bilaw-prefetch") as pool:
            ahead: Future[Tensor] | None = None
            for span in spans:
                ready, ahead = ahead, pool.submit(self.store.fetch, span)
                if ready is not None:
                    yield ready.result()
            if ahead is not None:
                yield ahead.result()

    def _finish(self, plan: Plan, step: int, raw: Tensor) -> Batch:
        """Crop, mirror and convert a fetched batch where it lies; the bytes are moved before they grow."""
        span = self._span(step)
        index = plan.places[span]
        if self.augment:
            raw = cut(raw, self._corner(plan, raw)[span])
        return Batch(to_unit(raw), self.store.y[index], index)
