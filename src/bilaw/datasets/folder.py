"""A folder of images: ROOT/train/CLASS/* and ROOT/test/CLASS/* (or val), or ROOT/CLASS/* without a test half."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bilaw.datasets.data import MEMORY_LIMIT, Dataset, Half, Images, Lazy
from bilaw.datasets.labels import join
from bilaw.datasets.pictures import mode_of, to_bytes
from bilaw.errors import nearest, refuse

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
TEST = ("test", "val", "valid", "validation")
LAYOUT = "a folder train/CLASS/*.png (or .jpg, ...) and perhaps test/CLASS/*, or CLASS/* alone"
THREADS = 4  # Pillow lets go of the interpreter while it decodes


def load(root: Path, limit: int = MEMORY_LIMIT) -> Dataset:
    """Return the images of a folder, classes in the order of their names; it needs Pillow."""
    _pillow(root)
    inside = [folder.name for folder in _folders(root)]
    train_at = root / "train" if "train" in inside and _folders(root / "train") else root  # "train" may be a class
    test_at = next((root / name for name in TEST if name in inside), None) if train_at != root else None
    classes = tuple(folder.name for folder in _folders(train_at))
    if not classes:
        refuse("data", str(train_at), f"{LAYOUT}; it has no folders of classes")
    files, y = _labelled(train_at, classes)
    mode, size, notes = _headers(files, None)
    train = _half(files, y, mode, size, limit)._replace(classes=classes)
    test = None
    if test_at is not None:
        files, y = _labelled(test_at, classes)
        _, _, more = _headers(files, (mode, size))
        test = _half(files, y, mode, size, limit)
        test = test._replace(notes=(*more, *test.notes))
    return join(root.resolve().name, train._replace(notes=(*notes, *train.notes)), test)


def _pillow(where: Path) -> Any:
    try:
        from PIL import Image  # not above: only image folders need it
    except ImportError:
        refuse("data", str(where), "an image folder only where Pillow is installed: pip install 'bilaw[images]'")
    return Image


def _folders(at: Path) -> list[Path]:
    """Return the folders in a folder, by name; hidden ones are passed over."""
    return sorted(path for path in at.iterdir() if path.is_dir() and not path.name.startswith("."))


def _labelled(at: Path, classes: Sequence[str]) -> tuple[list[Path], Tensor]:
    """Return the image files below the folders of the classes, and their labels."""
    files, y = [], []
    for folder in _folders(at):
        if folder.name not in classes:
            refuse("data", str(folder), f"the folder of a class that train has{nearest(folder.name, classes)}")
        own = sorted(path for path in folder.rglob("*") if _is_image(path, folder))
        if not own:
            refuse("data", str(folder), f"at least one image ({', '.join(SUFFIXES)})")
        files += own
        y += [classes.index(folder.name)] * len(own)
    if not files:
        refuse("data", str(at), LAYOUT)
    return files, torch.tensor(y)


def _is_image(path: Path, below: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(below).parts)  # .ipynb_checkpoints, ._1.png
    return path.suffix.lower() in SUFFIXES and not hidden and not path.is_dir()


def _headers(
    files: Sequence[Path], like: tuple[str, tuple[int, int]] | None
) -> tuple[str, tuple[int, int], tuple[str, ...]]:
    """Return the mode and (width, height) of the first image, having looked at the headers of all.

    All of them before any is decoded: what does not fit is named now, not hours into a run.
    """
    image, others = _pillow(files[0]), 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", image.DecompressionBombWarning)
        for file in files:
            with _opened(image, file) as picture:
                mode, size = mode_of(picture, str(file)), picture.size
            like = like or (mode, size)
            if size != like[1]:
                found, wanted = (f"{w} x {h} pixels" for w, h in (size, like[1]))
                refuse(str(file), found, f"images of one size, {wanted} as the first; resize them beforehand")
            others += mode != like[0]
    assert like is not None  # there is at least one file
    name, other = ("grey", "in colour") if like[0] == "L" else ("in colour", "grey")
    note = (f"read as {name}, as the first image is; {others} of {len(files)} images are {other}",) if others else ()
    return (*like, note)


def _opened(image: Any, file: Path) -> Any:
    try:
        return image.open(file)
    except (image.DecompressionBombError, image.DecompressionBombWarning) as error:
        refuse("data", str(file), f"an image of a size that Pillow takes for harmless ({error})")
    except Exception as error:  # Pillow's plugins raise many kinds
        refuse("data", str(file), f"an image that can be read ({type(error).__name__}: {error})")


def _half(files: Sequence[Path], y: Tensor, mode: str, size: tuple[int, int], limit: int) -> Half:
    """Return the images in memory if they fit, else read from their files each time."""
    image = _pillow(files[0])
    shape = (1 if mode == "L" else 3, size[1], size[0])

    def decode(place: int) -> Tensor:
        with _opened(image, files[place]) as picture:
            if picture.size != size:
                refuse("data", str(files[place]), f"the image it was when the run began, {size[0]} x {size[1]} pixels")
            try:
                return to_bytes(picture, mode)
            except Exception as error:  # as above
                refuse("data", str(files[place]), f"an image that is whole ({type(error).__name__}: {error})")

    def read(index: Tensor) -> Tensor:
        out = torch.empty(len(index), *shape, dtype=torch.uint8)
        with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1), "bilaw-decode") as pool:
            for into, picture in zip(out, pool.map(decode, index.tolist()), strict=True):
                into.copy_(picture)
        return out

    held = len(files) * shape[0] * shape[1] * shape[2]
    if held <= limit:
        return Half(Images(read(torch.arange(len(files))), y))
    return Half(Lazy(read, y, shape), None, (f"{held / 2**30:.1f} GiB of images are read from their files each time",))
