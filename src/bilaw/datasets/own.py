"""The user's own data, whatever form it has, as a `Dataset`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import TensorDataset

from bilaw.datasets import npz
from bilaw.datasets.arrays import from_arrays, from_images
from bilaw.datasets.data import MEMORY_LIMIT, Dataset, Half, Images, Lazy
from bilaw.datasets.labels import join, to_labels
from bilaw.datasets.mapped import from_mapped
from bilaw.errors import refuse

TEST = ("test", "validation", "val", "valid")
ACCEPTED = (
    "arrays or tensors (x, y), a map-style data set that gives (image, label), a bilaw Dataset or Images, "
    "or a pair (train, test) of these"
)


def as_dataset(data: Any, name: str = "own data", limit: int = MEMORY_LIMIT) -> Dataset:
    """Return the user's own data as a checked `Dataset`; images of more than `limit` bytes are not read at once.

    It takes arrays or tensors (x, y); a map-style PyTorch data set (torchvision's and Hugging Face's too); a `Dataset`
    or `Images`; a pair (train, test) or a dict {"train": ..., "test": ...} of any of these; a dict x_train, y_train,
    x_test, y_test. Without a test half, `test` is None. Own data are not augmented unless `data.augment` says so.

    >>> own = as_dataset((np.zeros((4, 8, 8), dtype=np.uint8), [0, 1, 0, 1]))
    >>> own.train.x.shape, own.test, own.classes
    (torch.Size([4, 1, 8, 8]), None, ('0', '1'))
    """
    if isinstance(data, Dataset):
        test = data.test and _half(data.test, "test", limit)
        checked = join(data.name, _half(data.train, "train", limit)._replace(classes=data.classes), test)
        return checked._replace(augment=data.augment, notes=data.notes)
    if isinstance(data, Mapping):
        if "train" not in data:
            return npz.from_mapping(data, name)
        data = (data["train"], next((data[key] for key in TEST if key in data), None))
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data, Images) and not _is_array(data[0]):
        train, second = data
        return join(name, _half(train, "train", limit), None if second is None else _half(second, "test", limit))
    return join(name, _half(data, "train", limit), None)


def _half(data: Any, where: str, limit: int) -> Half:
    if isinstance(data, Images):
        return from_images(data, where)
    if isinstance(data, Lazy):
        return Half(data._replace(y=to_labels(data.y, len(data.y), where)))
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, tuple):
        if len(data) == 2 and _is_array(data[0]):
            return from_arrays(*data, where)
        refuse(f"{where} data", f"tuple of {', '.join(type(part).__name__ for part in data)}", ACCEPTED)
    if (
        hasattr(data, "__len__")
        and hasattr(data, "__getitem__")
        and not isinstance(data, str | bytes | Tensor | np.ndarray)
    ):
        return from_mapped(data, where, limit)
    hint = ""
    if hasattr(data, "dataset"):
        hint = "; of a DataLoader, hand over its .dataset (bilaw draws the batches itself)"
    elif hasattr(data, "__iter__") and not hasattr(data, "__len__"):
        hint = "; one that can only be walked through cannot be split or shuffled"
    elif _is_array(data):
        hint = "; labels belong to the images"
    return refuse(f"{where} data", type(data).__name__, ACCEPTED + hint)


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray | Tensor)
