"""Labels at the door: whole numbers 0..k-1, each class there to be trained on; and two halves made one data set."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bilaw.datasets.data import Dataset, Half, shape_of
from bilaw.errors import refuse

SHOWN = 8  # labels that a refusal lists


def to_labels(y: Any, n: int, where: str) -> Tensor:
    """Return labels of any integer type, (N,) or (N, 1), as int64 on the host.

    >>> to_labels(np.array([[3], [0]], dtype=np.uint8), 2, "train")
    tensor([3, 0])
    """
    held = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if n < 1:
        refuse(f"{where} samples", n, "at least 1")
    if held.ndim == 2 and held.shape[1] == 1:  # Keras' CIFAR
        held = held[:, 0]
    if held.ndim == 2 and len(held) == n:
        refuse(
            f"{where} labels", f"shape {held.shape}", "one whole number for each image (of one-hot rows, the argmax)"
        )
    if held.dtype.kind not in "iu":
        hint = "; names become numbers by numpy.unique(names, return_inverse=True)" if held.dtype.kind in "US" else ""
        refuse(f"{where} labels", str(held.dtype), f"an integer type{hint}")
    if held.shape != (n,):
        refuse(f"{where} labels", f"shape {held.shape}", f"shape ({n},): one label for each image")
    return torch.from_numpy(held.astype(np.int64))


def join(name: str, train: Half, test: Half | None, *, augment: bool = False) -> Dataset:
    """Return one data set of two halves, refusing labels or shapes that do not belong together."""
    classes = _classes(train)
    notes = [f"train: {note}" for note in train.notes]
    if test is not None:
        notes += [f"test: {note}" for note in test.notes]
        if shape_of(test.samples) != shape_of(train.samples):
            refuse(
                "test images", f"shape {shape_of(test.samples)}", f"{shape_of(train.samples)}, as the training images"
            )
        if test.classes and train.classes and test.classes != train.classes:
            refuse("test classes", ", ".join(test.classes), f"those of the training half: {', '.join(train.classes)}")
        y = test.samples.y
        if int(y.min()) < 0 or int(y.max()) >= len(classes):
            refuse("test labels", f"{int(y.min())}..{int(y.max())}", f"labels in 0..{len(classes) - 1}, as in training")
    return Dataset(name, train.samples, test.samples if test else None, classes, augment, tuple(notes))


def _classes(train: Half) -> tuple[str, ...]:
    """Return the classes' names, or numbers; every class must be there to train on."""
    found = torch.unique(train.samples.y).tolist()
    k = len(train.classes) if train.classes else len(found)
    if found != list(range(k)) or k < 2:
        shown = ", ".join(map(str, found[:SHOWN])) + (f", ..., {found[-1]}" if len(found) > SHOWN else "")
        named = f" (it names {k} classes)" if train.classes else ""
        if k < 2 and not train.classes:
            refuse("train labels", shown, "at least two classes, 0 and 1: there is nothing to tell apart")
        refuse(
            "train labels", shown, f"every one of {'0 and 1' if k == 2 else f'0, 1, ..., {k - 1}'}{named}, and no other"
        )
    return train.classes or tuple(map(str, range(k)))
