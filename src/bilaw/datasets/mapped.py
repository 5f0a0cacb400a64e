"""Any map-style data set: `len(data)`, and `data[i]` gives an image and a label. Torchvision's and Hugging Face's too.

Nothing of theirs is imported: a data set is known by what it can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bilaw.datasets.arrays import compact, from_arrays
from bilaw.datasets.augment import to_unit
from bilaw.datasets.chance import unmoved
from bilaw.datasets.data import MEMORY_LIMIT, Half, Images, Lazy
from bilaw.datasets.labels import to_labels
from bilaw.datasets.samples import LABEL_KEYS, Form, form_of, label, parts, pixels
from bilaw.errors import Refused, reason, refuse

LOOKS = 16  # samples that are read twice, to see whether reading is random
RANDOM = (
    "its transforms are random: they act anew each epoch, on held-out samples too, and such a run does not repeat to "
    "the same bits; without them, data.augment = true crops and mirrors on the device, faster and repeatably"
)


class Reader:
    """A map-style data set read as (image, label), each image checked to be like the first."""

    def __init__(self, data: Any, where: str) -> None:
        self.data, self.where, self.n = data, where, len(data)
        if self.n < 1:
            refuse(f"{where} samples", 0, "at least 1")
        self.first = self.sample(0)
        image, _ = parts(self.first, f"{where}[0]")
        self.form: Form = form_of(image, f"{where}[0]")
        self.like = pixels(image, self.form, f"{where}[0]")

    def sample(self, place: int) -> Any:
        """Return what the user's data set gives."""
        try:
            return self.data[place]
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            found = reason(error)
            raise Refused(f"{self.where}[{place}] cannot be read ({found}); it takes one that can") from error

    def at(self, place: int) -> tuple[Tensor, int]:
        """Return one image and its label."""
        where = f"{self.where}[{place}]"
        image, y = parts(self.sample(place), where)
        x = pixels(image, self.form, where)
        if x.shape != self.like.shape or x.dtype != self.like.dtype:
            found, like = (f"{str(t.dtype)[6:]} of shape {tuple(t.shape)}" for t in (x, self.like))
            refuse(where, found, f"images like the first one, {like}")
        return x, label(y, where)

    def images(self, index: Tensor) -> Tensor:
        """Return the images at `index`."""
        out = torch.empty(len(index), *self.like.shape, dtype=self.like.dtype)
        for into, place in zip(out, index.tolist(), strict=True):
            into.copy_(self.at(place)[0])
        return out

    def all(self) -> tuple[Tensor, Tensor]:
        """Return all images and labels, each sample read once."""
        x, y = torch.empty(self.n, *self.like.shape, dtype=self.like.dtype), torch.empty(self.n, dtype=torch.int64)
        for place, into in enumerate(x):
            image, y[place] = self.at(place)
            into.copy_(image)
        return x, y


def from_mapped(data: Any, where: str = "train", limit: int = MEMORY_LIMIT) -> Half:
    """Return a map-style data set as the training or test half, in memory if it is small and the same each time."""
    with unmoved() as moved:
        reader = Reader(data, where)
        places = torch.linspace(0, reader.n - 1, min(LOOKS, reader.n)).long().tolist()
        once, again = ([reader.at(place) for place in places] for _ in range(2))
        random = moved() or any(not torch.equal(a, b) for (a, _), (b, _) in zip(once, again, strict=True))
        half = _read(reader, dict(zip(places, once, strict=True)), random, limit)
    layout = () if reader.form.sure else (f"images were read as {reader.form.kind}; both layouts were possible",)
    return Half(half.samples, _class_names(data, reader.first), (*layout, *half.notes))


def _read(reader: Reader, seen: dict[int, tuple[Tensor, int]], random: bool, limit: int) -> Half:
    """Return the data set as arrays that it holds, as a reader of its samples, or read once into memory."""
    y = _known_labels(reader, seen)
    if not random and y is not None and (held := _held(reader, y, seen)):
        return held
    size = reader.n * reader.like.numel() * reader.like.element_size()
    if random or size > limit:
        y = torch.tensor([reader.at(place)[1] for place in range(reader.n)]) if y is None else y
        why = RANDOM if random else f"{size / 2**30:.1f} GiB of images stay where they are and are read batch by batch"
        channels, height, width = reader.like.shape
        return Half(Lazy(reader.images, y, (channels, height, width)), None, (why,))
    x, y = reader.all()
    x, note = compact(x)
    return Half(Images(x, y), None, note)


def _known_labels(reader: Reader, seen: dict[int, tuple[Tensor, int]]) -> Tensor | None:
    """Return the labels that a data set keeps apart from its images, if they are those that it gives with them.

    Those of torchvision's own classes and Hugging Face's columns only: a user's class may give others than it keeps.
    """
    data: Any = reader.data
    found: Any = None
    try:
        if _is_torchvisions(data) and getattr(data, "target_transform", None) is None:
            found = data.targets if hasattr(data, "targets") else data.labels
        elif hasattr(data, "column_names"):
            found = data[next(key for key in LABEL_KEYS if key in reader.first)]
        y = to_labels(found if isinstance(found, Tensor) else list(found), reader.n, reader.where)
    except Exception:  # no labels of that kind there: they are read with the images
        return None
    return y if all(int(y[place]) == value for place, (_, value) in seen.items()) else None


def _held(reader: Reader, y: Tensor, seen: dict[int, tuple[Tensor, int]]) -> Half | None:
    """Return the arrays that a data set without transforms holds (torchvision's `.data`), if it gives their pixels."""
    data = reader.data
    transforms = (getattr(data, name, None) for name in ("transform", "transforms", "target_transform"))
    if not _is_torchvisions(data) or any(transform is not None for transform in transforms):
        return None
    try:
        half = from_arrays(data.data, y, reader.where)
    except (AttributeError, ValueError):
        return None
    assert isinstance(half.samples, Images)
    x = half.samples.x
    # The look at shapes first: `.data` may be laid out in a way that its pixels tell, and the rule does not.
    same = x.shape[1:] == reader.like.shape and all(
        torch.equal(to_unit(x[place]), to_unit(image)) for place, (image, _) in seen.items()
    )
    return half if same else None


def _is_torchvisions(data: Any) -> bool:
    return type(data).__module__.startswith("torchvision.")


def _class_names(data: Any, first: Any) -> tuple[str, ...] | None:
    """Return the names of the classes where the data set, or the one it is a subset of, has any."""
    names, features = getattr(data, "classes", None), getattr(data, "features", None)
    if names is None and isinstance(features, Mapping) and isinstance(first, Mapping):
        key = next((key for key in LABEL_KEYS if key in first), "")
        names = getattr(features.get(key), "names", None)
    if names is None and hasattr(data, "dataset"):
        return _class_names(data.dataset, first)
    return tuple(map(str, names)) if isinstance(names, list | tuple) and names else None
