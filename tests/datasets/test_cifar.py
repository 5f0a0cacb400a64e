"""CIFAR's binary records, on files written here."""

import numpy as np
import pytest
import sources_kit as kit
import torch

from bilaw.datasets import cifar
from bilaw.datasets.sources.get import obtain


def record(labels, red, green, blue):
    return bytes([*labels]) + bytes([red]) * 1024 + bytes([green]) * 1024 + bytes([blue]) * 1024


def test_planes_and_labels_of_cifar_10():
    files = [bytearray(record([3], 1, 2, 3) + record([9], 4, 5, 6)), bytearray(record([0], 7, 8, 9))]
    held = cifar.read(files, 1, cifar.CLASSES_10)
    assert held.x.shape == (3, 3, 32, 32)
    assert held.x[:, :, 0, 0].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert (held.x.dtype, held.y.dtype, held.y.tolist()) == (torch.uint8, torch.int64, [3, 9, 0])


def test_rows_lie_one_after_the_other():
    pixels = np.arange(3072, dtype=np.uint8)
    held = cifar.read([bytearray(b"\0" + pixels.tobytes())], 1, cifar.CLASSES_10)
    assert np.array_equal(held.x[0].numpy(), pixels.reshape(3, 32, 32))


def test_the_fine_label_of_cifar_100_counts():
    held = cifar.read([bytearray(record([19, 99], 0, 0, 0))], 2, cifar.CLASSES_100)
    assert held.y.tolist() == [99]


def test_the_names_of_the_classes():
    assert len(set(cifar.CLASSES_100)) == 100
    assert (cifar.CLASSES_100[0], cifar.CLASSES_100[41], cifar.CLASSES_100[-1]) == ("apple", "lawn_mower", "worm")
    assert list(cifar.CLASSES_100) == sorted(cifar.CLASSES_100)


@pytest.mark.parametrize("raw", [b"", b"x", record([0], 0, 0, 0)[:-1], record([0, 0], 0, 0, 0)])
def test_a_file_that_is_not_whole_records_is_refused(raw):
    with pytest.raises(ValueError, match=r"it takes one or more records of 3073 bytes"):
        cifar.read([bytearray(raw)], 1, cifar.CLASSES_10)


def test_a_label_that_is_no_class_is_refused():
    with pytest.raises(ValueError, match=r"labels = 10 is not accepted; it takes labels in 0\.\.9"):
        cifar.read([bytearray(record([10], 0, 0, 0))], 1, cifar.CLASSES_10)


def test_cifar_100_from_its_archive_to_a_data_set(tmp_path, monkeypatch):
    known, contents = kit.small_cifar(hundred=True)
    (tmp_path / known.archive.name).write_bytes(kit.packed(known.layouts[0], contents))
    obtain(known, tmp_path / "cache", folder=tmp_path)
    monkeypatch.setattr(cifar, "CIFAR_100", known)
    data = cifar.load_100(tmp_path / "cache")
    assert (data.name, len(data.classes), data.augment) == ("cifar-100", 100, True)
    assert data.train.y.tolist() == [contents["train.bin"][at * 3074 + 1] for at in range(4)]
    assert bytes(data.test.x[3].flatten().tolist()) == contents["test.bin"][-3072:]
