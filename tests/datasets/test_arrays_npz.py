import io
import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy

from bilaw.datasets import npz
from bilaw.datasets.table import load

X = np.random.default_rng(0).integers(256, size=(12, 6, 5, 3), dtype=np.uint8)
Y = np.arange(12) % 3


def write(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize(
    "names",
    [
        ("x_train", "y_train", "x_test", "y_test"),
        ("X_train", "Y_train", "X_test", "Y_test"),
        ("train_images", "train_labels", "test_images", "test_labels"),
        ("train_images", "train_labels", "val_images", "val_labels"),
        ("images_train", "labels_train", "images_valid", "targets_valid"),
    ],
)
def test_both_halves(tmp_path, names):
    path = write(tmp_path / "mine.npz", **dict(zip(names, (X, Y, X[:4], Y[:4]), strict=True)), extra=Y)
    data = load(path)
    assert data.name == "mine"
    assert data.classes == ("0", "1", "2")
    assert not data.augment
    assert np.array_equal(data.train.x.permute(0, 2, 3, 1).numpy(), X)
    assert data.test.y.tolist() == Y[:4].tolist()


@pytest.mark.parametrize("names", [("x", "y"), ("images", "labels"), ("data", "targets"), ("x_train", "y_train")])
def test_without_a_test_half(tmp_path, names):
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, **dict(zip(names, (X, Y), strict=True)))
    data = load(str(path))
    assert data.test is None
    assert data.train.y.tolist() == Y.tolist()


def refusal(path):
    with pytest.raises(ValueError, match="is not accepted; it takes") as error:
        load(str(path))
    return str(error.value)


def test_a_file_without_the_keys_says_what_it_has(tmp_path):
    says = refusal(write(tmp_path / "mine.npz", x_train=X, x_test=X))
    assert "arrays called x_train, y_train and perhaps" in says
    assert "(it has x_test, x_train)" in says


@pytest.mark.parametrize("keep", [0, 10, 300, -40])
def test_a_damaged_file_is_named(tmp_path, keep):
    path = tmp_path / "mine.npz"
    write(path, x=X, y=Y)
    path.write_bytes(path.read_bytes()[:keep])
    assert f"{str(path)!r} is not accepted; it takes an .npz file that is whole" in refusal(path)


def test_altered_bytes_are_found_by_their_checksum(tmp_path):
    path = tmp_path / "mine.npz"
    write(path, x=X, y=Y)
    held = bytearray(path.read_bytes())
    held[held.index(X.tobytes()) + 3] ^= 1
    path.write_bytes(held)
    assert "that is whole (Bad CRC-32" in refusal(path)


def test_pickles_are_never_loaded(tmp_path):
    path = write(tmp_path / "mine.npz", x=X, y=np.array([{"a": 1}] * 12, dtype=object))
    assert "Python objects are never loaded" in refusal(path)


def member(shape, dtype="|u1", body=b""):
    stream = io.BytesIO()
    npy.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": dtype})
    return stream.getvalue() + body


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (member((10**9, 1000, 1000)), "an array that is whole: 1000000000000128 bytes, not 128"),
        (member((12, 6, 5, 3), body=b"short"), "an array that is whole: 1208 bytes, not 133"),
        (b"not an array", "an array that is whole (the magic string is not correct"),
    ],
)
def test_headers_are_read_before_arrays(tmp_path, monkeypatch, content, says):
    monkeypatch.setattr(npz.np, "load", None)  # nothing may be loaded
    path = tmp_path / "mine.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", content)
        archive.writestr("y.npy", member((12,), "<i8", bytes(96)))
    text = refusal(path)
    assert f"x in {path}" in text
    assert says in text


def test_what_no_memory_holds_is_not_read(tmp_path, monkeypatch):
    path = write(tmp_path / "mine.npz", x=X, y=Y)
    monkeypatch.setattr(npz, "_memory", lambda: 2.0 * (X.nbytes + Y.nbytes))
    assert len(load(path).train.y) == 12
    monkeypatch.setattr(npz, "_memory", lambda: 2.0 * (X.nbytes + Y.nbytes) - 1)
    monkeypatch.setattr(npz.np, "load", None)
    assert "arrays of at most 0.0 GiB, half of this machine's memory; an image folder may be larger" in refusal(path)
