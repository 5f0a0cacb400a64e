import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from bilaw.datasets import digits
from bilaw.datasets.data import Images, Lazy
from bilaw.datasets.own import as_dataset

X = np.random.default_rng(0).integers(256, size=(12, 7, 5), dtype=np.uint8)
Y = np.arange(12) % 3
IMAGES = Images(torch.from_numpy(X).unsqueeze(1), torch.from_numpy(Y))
LISTED = [(X[i], int(Y[i])) for i in range(12)]
LAZY = Lazy(lambda index: IMAGES.x[index], IMAGES.y, (1, 7, 5))
FORMS = {
    "arrays": (X, Y),
    "tensors": (torch.from_numpy(X), torch.from_numpy(Y)),
    "images": IMAGES,
    "list": LISTED,
    "TensorDataset": TensorDataset(IMAGES.x, IMAGES.y),
}


def same(samples):
    return torch.equal(samples.x, IMAGES.x) and torch.equal(samples.y, IMAGES.y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("other", [*FORMS, None])
def test_every_form_alone_and_in_a_pair(form, other):
    alone = as_dataset(FORMS[form])
    assert same(alone.train)
    assert alone.test is None
    assert alone.classes == ("0", "1", "2")
    second = FORMS[other] if other else None
    for pair in ((FORMS[form], second), {"train": FORMS[form], "test": second}):
        both = as_dataset(pair, "mine")
        assert both.name == "mine"
        assert same(both.train)
        assert both.test is None if other is None else same(both.test)


def test_a_dict_as_keras_has_it():
    data = as_dataset({"x_train": X, "y_train": Y, "x_test": X[:3], "y_test": Y[:3]})
    assert same(data.train)
    assert len(data.test.y) == 3


def test_a_validation_half_stands_for_the_test_half():
    assert same(as_dataset({"train": IMAGES, "validation": IMAGES}).test)


def test_a_dataset_keeps_its_name_classes_and_augmentation():
    data = digits.load()._replace(augment=True, notes=("seen",))
    again = as_dataset(data)
    assert again[3:] == data[3:]
    assert again.name == "digits"
    assert torch.equal(again.train.x, data.train.x)


def test_a_lazy_half_stays_lazy():
    got = as_dataset((LAZY._replace(y=LAZY.y.int()), IMAGES)).train
    assert isinstance(got, Lazy)
    assert got.read is LAZY.read
    assert got.y.dtype == torch.int64


class Walked(IterableDataset):
    def __iter__(self):
        return iter(LISTED)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "train data = 'NoneType' is not accepted; it takes arrays or tensors (x, y), a map-style data set"),
        ("cifar-10", "train data = 'str'"),
        (X, "'ndarray' is not accepted; it takes arrays"),
        (X, "labels belong to the images"),
        ((X, Y, X, Y), "train data = 'tuple of ndarray, ndarray, ndarray, ndarray'"),
        (Walked(), "one that can only be walked through cannot be split or shuffled"),
        (DataLoader(LISTED), "of a DataLoader, hand over its .dataset"),
        ({"a": X}, "(it has a)"),
        (LAZY._replace(y=LAZY.y[:0]), "train samples = 0"),
        (LAZY._replace(y=LAZY.y / 2), "train labels = 'float32'"),
        ([], "train samples = 0 is not accepted; it takes at least 1"),
        ((X, Y + 1), "train labels = '1, 2, 3' is not accepted; it takes every one of 0, 1, ..., 2, and no other"),
        ((X, Y * 2), "train labels = '0, 2, 4'"),
        ((X, Y - 1), "train labels = '-1, 0, 1'"),
        ((X, Y * 0), "train labels = '0' is not accepted; it takes at least two classes"),
        ((X, np.arange(12) * 3), "train labels = '0, 3, 6, 9, 12, 15, 18, 21, ..., 33'"),
        (((X, Y), (X, Y + 1)), "test labels = '1..3' is not accepted; it takes labels in 0..2, as in training"),
        (
            ((X, Y), (X[:, :5], Y)),
            "test images = 'shape (1, 5, 5)' is not accepted; it takes (1, 7, 5), as",
        ),
        (((X, Y), (X * 1.0, Y)), "test images = 'values in [0, 25"),
        (digits.load()._replace(classes=("a", "b")), "(it names 2 classes)"),
        (Images(IMAGES.x + 0.5, IMAGES.y), "divide bytes by 255"),
    ],
)
def test_refusals(data, says):
    with pytest.raises(ValueError, match="is not accepted; it takes") as refusal:
        as_dataset(data)
    assert says in str(refusal.value)
