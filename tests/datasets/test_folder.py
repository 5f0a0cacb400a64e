import sys
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from bilaw.datasets import folder
from bilaw.datasets.data import Images, Lazy, take
from bilaw.datasets.table import load


def picture(seed, mode="RGB", size=(6, 5)):
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], 3)
    return Image.fromarray(np.random.default_rng(seed).integers(256, size=shape, dtype=np.uint8))


def pixels(image):
    held = torch.from_numpy(np.array(image))
    return held.unsqueeze(0) if held.ndim == 2 else held.permute(2, 0, 1)


def fill(root, classes=("cat", "ant", "bee"), n=3, mode="RGB", suffix="png"):
    for c, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(n):
            picture(10 * c + i, mode).save(root / name / f"{i}.{suffix}")
    return root


@pytest.mark.parametrize("test", ["test", "val", "valid"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_two_halves(tmp_path, test, mode):
    fill(tmp_path / "train", mode=mode)
    fill(tmp_path / test, classes=("bee", "cat"), n=1, mode=mode)
    data = load(str(tmp_path))
    assert data.name == tmp_path.name
    assert data.classes == ("ant", "bee", "cat")  # sorted, whatever order they were made in
    assert data.train.y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.test.y.tolist() == [1, 2]
    want = [pixels(picture(seed, mode)) for seed in (10, 11, 12, 20, 21, 22, 0, 1, 2)]
    assert torch.equal(data.train.x, torch.stack(want))
    assert data.notes == ()


def test_without_a_test_half_what_is_hidden_or_no_image_is_passed_over(tmp_path):
    fill(tmp_path, suffix="PNG")
    (tmp_path / ".cache").mkdir()
    (tmp_path / "readme.txt").write_text("mine")
    (tmp_path / "ant" / ".ipynb_checkpoints").mkdir()
    (tmp_path / "ant" / "folder.png").mkdir()
    for name in ("._0.png", "notes.txt", ".ipynb_checkpoints/1.png"):
        (tmp_path / "ant" / name).write_text("no image")
    data = load(str(tmp_path))
    assert data.test is None
    assert len(data.train.y) == 9


def test_a_class_may_be_called_train(tmp_path):
    assert load(str(fill(tmp_path, classes=("car", "train")))).classes == ("car", "train")


def test_links_and_deeper_folders_are_followed(tmp_path):
    fill(tmp_path / "far")
    (tmp_path / "near" / "cat").mkdir(parents=True)
    (tmp_path / "near" / "ant").symlink_to(tmp_path / "far" / "ant")
    (tmp_path / "near" / "cat" / "0.png").symlink_to(tmp_path / "far" / "cat" / "0.png")
    (tmp_path / "near" / "cat" / "images").mkdir()
    picture(7).save(tmp_path / "near" / "cat" / "images" / "1.png")
    data = load(str(tmp_path / "near"))
    assert data.train.y.tolist() == [0, 0, 0, 1, 1]
    assert torch.equal(data.train.x[-1], pixels(picture(7)))


def test_a_large_folder_is_read_from_its_files_each_time(tmp_path):
    fill(tmp_path)
    whole, lazy = folder.load(tmp_path), folder.load(tmp_path, limit=9 * 90 - 1)
    assert isinstance(folder.load(tmp_path, limit=9 * 90).train, Images)
    assert isinstance(lazy.train, Lazy)
    assert "read from their files each time" in lazy.notes[0]
    index = torch.tensor([8, 0, 3, 3])
    assert torch.equal(take(lazy.train, index).x, whole.train.x[index])
    assert not [thread for thread in threading.enumerate() if "decode" in thread.name]
    picture(0, size=(4, 4)).save(tmp_path / "ant" / "0.png")
    with pytest.raises(ValueError, match="the image it was when the run began, 6 x 5 pixels"):
        take(lazy.train, index)


@pytest.mark.parametrize(
    ("first", "other", "says"),
    [
        ("L", "RGB", "train: read as grey, as the first image is; 1 of 4 images are in colour"),
        ("RGB", "L", "train: read as in colour, as the first image is; 1 of 4 images are grey"),
    ],
)
def test_the_first_image_decides_between_grey_and_colour(tmp_path, first, other, says):
    fill(tmp_path, classes=("a", "b"), n=2, mode=first)
    picture(3, other).save(tmp_path / "b" / "1.png")
    data = load(str(tmp_path))
    assert data.train.x.shape == (4, 1 if first == "L" else 3, 5, 6)
    assert data.notes == (says,)


def refusal(root):
    with pytest.raises(ValueError, match="is not accepted; it takes") as error:
        load(str(root))
    return str(error.value)


def test_sizes_must_agree(tmp_path):
    fill(tmp_path)
    picture(1, size=(7, 5)).save(tmp_path / "bee" / "1.png")
    assert "'7 x 5 pixels' is not accepted; it takes images of one size, 6 x 5 pixels as the first" in refusal(tmp_path)
    assert str(tmp_path / "bee" / "1.png") in refusal(tmp_path)


@pytest.mark.parametrize("keep", [0, 20, 80])
def test_a_damaged_image_is_named(tmp_path, keep):
    fill(tmp_path)
    bad = tmp_path / "cat" / "2.png"
    bad.write_bytes(bad.read_bytes()[:keep])
    text = refusal(tmp_path)
    assert f"data = {str(bad)!r}" in text
    assert "an image that can be read" in text or "an image that is whole" in text


def test_a_dangling_link_is_named(tmp_path):
    fill(tmp_path)
    (tmp_path / "cat" / "9.png").symlink_to(tmp_path / "gone.png")
    assert f"{str(tmp_path / 'cat' / '9.png')!r} is not accepted; it takes an image that can be read" in refusal(
        tmp_path
    )


@pytest.mark.parametrize("limit", [20, 10])  # Pillow warns above its limit, and refuses above twice that
def test_decompression_bombs_are_refused(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    text = refusal(fill(tmp_path))
    assert "an image of a size that Pillow takes for harmless" in text
    assert "30 pixels" in text


def test_sixteen_bit_images_are_refused(tmp_path):
    fill(tmp_path)
    Image.fromarray(np.zeros((5, 6), dtype=np.uint16)).save(tmp_path / "ant" / "0.png")
    assert "images of 8 bits a channel" in refusal(tmp_path)


def test_other_refusals(tmp_path):
    assert "it has no folders of classes" in refusal(tmp_path)
    fill(tmp_path / "train")
    fill(tmp_path / "test", classes=("bees",))
    assert "the folder of a class that train has (did you mean 'bee'?)" in refusal(tmp_path)
    (tmp_path / "train" / "dog").mkdir()
    assert "dog' is not accepted; it takes at least one image (.png, .jpg" in refusal(tmp_path)


def test_without_pillow_it_says_what_to_install(tmp_path, monkeypatch):
    fill(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "only where Pillow is installed: pip install 'bilaw[images]'" in refusal(tmp_path)
