import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.datasets.augment import crop_and_mirror, to_unit
from bilaw.datasets.batches import Batches
from bilaw.datasets.data import Images
from bilaw.datasets.stores import Resident, Streamed, store


def images(n=53, channels=3, side=8):
    drawn = torch.Generator().manual_seed(5)
    x = torch.randint(256, (n, channels, side, side), generator=drawn, dtype=torch.uint8)
    return Images(x, torch.randint(10, (n,), generator=drawn))


DATA = images()


def same(a, b):
    return all(torch.equal(s, t) for s, t in zip(a, b, strict=True))


@settings(deadline=None)
@given(st.integers(1, 53), st.integers(1, 60), st.integers(0, 9), st.booleans(), st.sampled_from([1, 2, 99]))
def test_an_epoch_visits_each_sample_once_and_says_which(n, size, epoch, augment, least):
    index = torch.randperm(53, generator=torch.Generator().manual_seed(n))[:n]
    batches = Batches(Resident(DATA), index, size=size, augment=augment, least=min(least, size))
    got = list(batches.epoch(epoch))
    assert len(got) == len(batches)
    seen = torch.cat([batch.index for batch in got])
    assert len(seen.unique()) == len(seen)
    assert set(seen.tolist()) <= set(index.tolist())
    assert n - len(seen) < max(1, min(least, size))
    for batch in got:
        assert torch.equal(batch.y, DATA.y[batch.index])
        assert batch.x.dtype == torch.float32
        assert 0 <= float(batch.x.min()) <= float(batch.x.max()) <= 1
        if not augment:
            assert torch.equal(batch.x, DATA.x[batch.index].float() / 255)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 5), st.integers(0, 6), st.integers(0, 2**40))
def test_a_batch_is_a_function_of_seed_epoch_and_step(epoch, step, seed):
    def fresh():
        return Batches(Resident(DATA), size=8, seed=seed, augment=True)

    walked = list(fresh().epoch(epoch))
    asked = fresh()
    asked.at(epoch + 1, 0)  # what was asked before does not matter
    assert same(asked.at(epoch, step), walked[step])
    assert same(next(fresh().epoch(epoch, start=step)), walked[step])
    assert same(fresh().cycle(epoch * len(walked) + step), walked[step])


def test_seeds_epochs_and_purposes_differ():
    first = Batches(Resident(DATA), size=53).at(0, 0).index
    assert not torch.equal(first, Batches(Resident(DATA), size=53).at(1, 0).index)
    assert not torch.equal(first, Batches(Resident(DATA), size=53, seed=1).at(0, 0).index)
    assert not torch.equal(first, Batches(Resident(DATA), size=53, purpose="meta").at(0, 0).index)


def test_a_streamed_store_gives_the_same_batches():
    streamed = Streamed(lambda index: DATA.x[index], DATA.y)
    for start in (0, 3, 7):
        ours = list(Batches(streamed, size=8, augment=True).epoch(2, start))
        theirs = list(Batches(Resident(DATA), size=8, augment=True).epoch(2, start))
        assert len(ours) == 7 - start
        assert all(same(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_failing_reader_is_heard():
    def read(_index):
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        list(Batches(Streamed(read, DATA.y), size=8).epoch(0))


def test_the_trailing_batch():
    index = torch.arange(17)
    sizes = {
        least: [len(batch.y) for batch in Batches(Resident(DATA), index, size=8, least=least).epoch(0)]
        for least in (1, 2, 8)
    }
    assert sizes == {1: [8, 8, 1], 2: [8, 8], 8: [8, 8]}
    assert [len(b.y) for b in Batches(Resident(DATA), index[:5], size=8, least=8).epoch(0)] == [5]


def test_without_shuffling_the_order_is_that_of_the_index():
    got = Batches(Resident(DATA), torch.tensor([3, 1, 2]), shuffle=False, least=1).at(4, 0)
    assert got.index.tolist() == [3, 1, 2]


def test_cropping_and_mirroring_is_what_it_says_sample_by_sample():
    batches = Batches(Resident(DATA), size=53, augment=True)
    batch, plan = batches.at(3, 0), batches.plan(3)
    for i, place in enumerate(batch.index.tolist()):
        padded = torch.zeros(3, 16, 16, dtype=torch.uint8)
        padded[:, 4:12, 4:12] = DATA.x[place]
        dy, dx = plan.shift[:, i].tolist()
        want = padded[:, dy : dy + 8, dx : dx + 8]
        want = want.flip(2) if plan.mirror[i] else want
        assert torch.equal(batch.x[i], want.float() / 255)


def test_every_offset_and_both_mirrors_occur_evenly():
    many = Batches(Resident(images(9000, 1, 2)), size=9000, augment=True).plan(0)
    for row in many.shift:
        assert row.bincount().tolist() == pytest.approx([1000] * 9, abs=150)
    assert float(many.mirror.float().mean()) == pytest.approx(0.5, abs=0.03)


def test_floats_are_taken_as_they_are():
    x = torch.rand(4, 1, 2, 2)
    assert torch.equal(to_unit(x), x)
    none = torch.full((4,), 4)
    assert torch.equal(crop_and_mirror(x, none, none, torch.zeros(4, dtype=torch.bool)), x)


def test_small_data_is_resident():
    assert isinstance(store(DATA), Resident)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"size": 0}, "batch = 0"),
        ({"index": torch.tensor([], dtype=torch.int64)}, "train samples = 0"),
        ({"index": torch.tensor([53])}, "train index = '53..53'"),
    ],
)
def test_bad_settings_are_refused(settings, says):
    with pytest.raises(ValueError, match="is not accepted") as refusal:
        Batches(Resident(DATA), **settings)
    assert says in str(refusal.value)


def test_a_step_outside_the_epoch_is_refused():
    with pytest.raises(ValueError, match="step = 7"):
        Batches(Resident(DATA), size=8).at(0, 7)
