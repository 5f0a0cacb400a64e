"""Class-balanced, seeded, disjoint splits of a training set (METHOD section 6)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bilaw.errors import refuse
from bilaw.rng import generator

HELD_OUT = 1000  # the paper's size of the meta set; select gets the same
HELD_OUT_SHARE = 0.15  # at most this share of a training set too small for that
CLASS_SHARE = 0.25  # and at most this share of its smallest class: splits are balanced, data need not be


class Split(NamedTuple):
    """Three disjoint, sorted int64 index tensors that together cover the training set, unless less is asked for."""

    train: Tensor  # theta learns from these
    meta: Tensor  # the weight network mu learns from these
    select: Tensor  # early stopping and every choice of settings look at these


def default_size(n: int) -> int:
    """Return how many samples meta and select hold each by default: min(1000, 15 % of the n samples).

    >>> default_size(60_000), default_size(1_347)
    (1000, 202)
    """
    return min(HELD_OUT, max(1, int(n * HELD_OUT_SHARE)))


def fitting_size(counts: Tensor) -> int:
    """Return the default for classes of these sizes: no split takes much of the smallest one, each some of it.

    >>> fitting_size(torch.tensor([900, 80, 20])), fitting_size(torch.tensor([340, 330, 330]))
    (15, 150)
    """
    return min(default_size(int(counts.sum())), len(counts) * max(1, int(counts.min() * CLASS_SHARE)))


def about_sizes(y: Tensor, classes: int, learns: bool) -> list[str]:
    """Return what is worth knowing of default sizes: that a small class keeps them small."""
    counts = class_counts(y, classes)
    size, usual = fitting_size(counts), default_size(len(y))
    if size == usual:
        return []
    what, settings = (
        ("meta and select hold", "data.meta and data.select") if learns else ("select holds", "data.select")
    )
    small = f"class {int(counts.argmin())} has {int(counts.min())} of {len(y)} samples"
    return [f"{small}: {what} {size} samples{' each' * learns}, not {usual}; {settings} would set it"]


def split(
    y: Tensor,
    classes: int,
    meta: int | None = None,
    select: int | None = None,
    seed: int = 0,
    train: int | None = None,
) -> Split:
    """Return the train, meta and select indices of a training set with labels `y` (N,).

    `select` depends on the seed and its own size only, never on `meta`: a method without a meta set
    (`meta=0`) selects on the same samples as one with it. None stands for `fitting_size`; of `train`, for all that
    is left. A smaller `train` is the same with and without a meta set, too.

    >>> parts = split(torch.arange(60) % 3, classes=3, meta=6, select=9)
    >>> [len(part) for part in parts], torch.bincount(parts.meta % 3).tolist()
    ([45, 6, 9], [2, 2, 2])
    """
    chosen = [(f"data.{name}", size) for name, size in (("meta", meta), ("select", select)) if size]
    counts = class_counts(y, classes)
    meta = _checked("meta", fitting_size(counts) if meta is None else meta)
    select = _checked("select", fitting_size(counts) if select is None else select)
    both = [(name, size) for name, size in (("data.meta", meta), ("data.select", select)) if size]
    want_select = quotas(select, classes, seed, "select")
    want_meta = quotas(meta, classes, seed, "meta")
    want_train = None if train is None else quotas(train, classes, seed, "train")
    parts: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
    for c in range(classes):
        s, m, held = int(want_select[c]), int(want_meta[c]), int(counts[c])
        if held < s + m + 1:
            refuse(
                " + ".join(name for name, _ in chosen or both),
                sum(size for _, size in chosen) or meta + select,
                f"at most what every class can give and keep one sample to train on: class {c} has {held} "
                f"samples and would give {s} to select and {m} to meta",
            )
        own = shuffled_class(y, c, seed)
        first = s + m  # of those to train on, which are the last: they do not depend on how many come before
        if want_train is not None:
            first = held - int(want_train[c])
            if first < s + m:
                refuse("data.train", train, f"at most what every class has left; class {c} has {held - s - m} samples")
        for part, piece in zip(parts, (own[first:], own[s : s + m], own[:s]), strict=True):
            part.append(piece)
    return Split(*(torch.cat(part).sort().values for part in parts))


def quotas(count: int, classes: int, seed: int, purpose: str) -> Tensor:
    """Return how many of `count` samples each class gives: equal, or one apart where it does not divide."""
    order = torch.randperm(classes, generator=generator(seed, "split", purpose))
    share = torch.full((classes,), count // classes, dtype=torch.int64)
    share[order[: count % classes]] += 1
    return share


def shuffled_class(y: Tensor, c: int, seed: int) -> Tensor:
    """Return the places of class `c` in `y`, in an order drawn from the seed."""
    places = (y.cpu() == c).nonzero().flatten()
    return places[torch.randperm(len(places), generator=generator(seed, "split", "class", c))]


def class_counts(y: Tensor, classes: int) -> Tensor:
    """Return how many samples each class has, refusing labels outside 0..classes-1."""
    if y.ndim != 1 or y.is_floating_point() or y.dtype == torch.bool:
        refuse("labels", f"{y.dtype} of shape {tuple(y.shape)}", "a vector of integers")
    if classes < 2:
        refuse("classes", classes, "at least 2")
    if len(y) and (int(y.min()) < 0 or int(y.max()) >= classes):
        refuse("labels", f"{int(y.min())}..{int(y.max())}", f"integers in 0..{classes - 1}")
    return torch.bincount(y.cpu().long(), minlength=classes)


def _checked(setting: str, size: int) -> int:
    """Return `size` if it is a whole number >= 0."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        refuse(setting, size, "a whole number >= 0 of held-out samples")
    return size
