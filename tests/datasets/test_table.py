import numpy as np
import pytest
import torch

from bilaw.datasets.table import DATASETS, load

X = np.random.default_rng(0).integers(256, size=(6, 8, 8), dtype=np.uint8)
MODULE = """
import numpy as np
x, y = np.zeros((6, 8, 8), dtype=np.uint8), [0, 1, 2] * 2
pair = (x, y)
def plain(): return pair
def rooted(root): return ((x, y), None) if root == "here" else None
def optional(root="nowhere", more=3): return pair if root is None else None
def fails(): raise FileNotFoundError("no such disk")
def nothing(): return None
def needs(path): return pair
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "bilaw_own_data.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("function", "root"), [("plain", None), ("rooted", "here"), ("optional", None), ("pair", None)]
)
def test_a_function_of_the_users(function, root):
    data = load(f"bilaw_own_data:{function}", root)
    assert data.name == f"bilaw_own_data:{function}"
    assert data.train.x.shape == (6, 1, 8, 8)


def test_a_path_with_a_folder_or_a_suffix_is_a_path(own):
    (own / "sub").mkdir()
    np.savez(own / "sub" / "mine.npz", x=X, y=[0, 1] * 3)
    for name in ("sub/mine.npz", str(own / "sub" / "mine.npz")):
        assert torch.equal(load(name).train.x[:, 0], torch.from_numpy(X))


def test_names_of_the_table_come_first(own):
    (own / "digits").mkdir()
    assert load("digits").name == "digits"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "cifar10",
            "it takes one of cifar-10, cifar-100, digits, fashion-mnist, mnist (did you mean 'cifar-10'?)",
        ),
        ("svhn", "or an .npz file, a folder of images, or your own as module:function"),
        ("gone.npz", "data = 'gone.npz' is not accepted; it takes a path that exists (looked in "),
        ("gone/folder", "a path that exists"),
        ("~/bilaw-no-such-folder", "a path that exists"),
        ("bilaw_own_data.py", "of files, .npz alone"),
        ("bilaw_own_data:plane", "a function that bilaw_own_data has (did you mean 'plain'?)"),
        ("bilaw_no_such:f", "a module that can be imported"),
        ("bilaw_own_data:fails", "it takes a function that succeeds (FileNotFoundError: no such disk, at "),
        ("bilaw_own_data:needs", "it takes a function that succeeds (TypeError"),
        ("bilaw_own_data:nothing", "train data = 'NoneType'"),
    ],
)
def test_refusals(name, says):
    with pytest.raises(ValueError, match="is not accepted; it takes") as refusal:
        load(name)
    assert says in str(refusal.value)


def test_every_data_set_of_the_table_takes_a_root(tmp_path):
    for name in DATASETS:
        if name != "digits":
            with pytest.raises(ValueError, match=f"bilaw data get {name}"):
                load(name, tmp_path)
