import threading

import pytest
import torch

from bilaw.datasets import stores
from bilaw.datasets.batches import Batches
from bilaw.datasets.data import Images, Lazy, shape_of
from bilaw.datasets.stores import Kept, Resident, Streamed, store

N = 53
X = torch.randint(256, (N, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
DATA = Images(X, torch.arange(N) % 10)


class Disk:
    """A lazy data set that remembers who read what."""

    def __init__(self):
        self.reads = []
        self.lazy = Lazy(self.read, DATA.y, (3, 8, 8))

    def read(self, index):
        self.reads.append((threading.current_thread(), index))
        return X[index]


def same(a, b):
    return all(torch.equal(s, t) for s, t in zip(a, b, strict=True))


def test_held_images_are_resident_and_lazy_ones_streamed():
    disk = Disk()
    assert isinstance(store(DATA), Resident)
    assert isinstance(store(disk.lazy), Streamed)
    assert disk.reads == []  # nothing is read before it is asked for
    assert shape_of(disk.lazy) == shape_of(DATA) == (3, 8, 8)


@pytest.mark.parametrize(("free", "kind"), [(X.numel() * 3, Resident), (X.numel() * 2, Streamed)])
def test_what_does_not_fit_the_device_is_streamed(monkeypatch, free, kind):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10 * free))
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device, **_: self)
    assert isinstance(store(DATA, "cuda"), kind)
    assert stores.RESIDENT_SHARE == 0.4


def test_a_lazy_set_gives_the_batches_of_a_held_one_read_ahead_in_a_thread():
    disk = Disk()
    lazy, held = (Batches(store(samples), size=8, augment=True, seed=3) for samples in (disk.lazy, DATA))
    for epoch, start in ((0, 0), (4, 5)):
        disk.reads.clear()
        ours = list(lazy.epoch(epoch, start))
        assert len(ours) == len(lazy) - start
        assert all(same(a, b) for a, b in zip(ours, held.epoch(epoch, start), strict=True))
        assert threading.main_thread() not in [thread for thread, _ in disk.reads]
        assert [index.tolist() for _, index in disk.reads] == [batch.index.tolist() for batch in ours]
    assert same(lazy.at(2, 1), held.at(2, 1))


def test_reading_is_one_batch_ahead_and_no_more():
    disk = Disk()
    walk = Batches(store(disk.lazy), size=8).epoch(0)
    next(walk)
    walk.close()  # waits for what is under way
    assert len(disk.reads) == 2
    assert not [thread for thread in threading.enumerate() if "prefetch" in thread.name]


def test_kept_samples_are_read_once_and_asked_for_by_their_place_in_the_whole():
    disk = Disk()
    index = torch.tensor([50, 3, 17, 8])
    kept = Kept(disk.lazy, index)
    assert not kept.prefetch
    meta = [Batches(where, index, size=3, purpose="meta", least=3) for where in (kept, Resident(DATA))]
    for t in range(5):
        assert same(meta[0].cycle(t), meta[1].cycle(t))
    assert len(disk.reads) == 1
