import pytest
import torch

from bilaw.config import Config, DataConfig, MetaConfig, OptimConfig, SchemeConfig
from bilaw.datasets.data import Images, Lazy
from bilaw.training.feed import digest, feed

N, K = 120, 4
X = torch.randint(256, (N, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
DATA = Images(X, torch.arange(N) % K)
LAZY = Lazy(lambda index: X[index], DATA.y, (1, 8, 8))
SAMPLES = {"held": DATA, "lazy": LAZY}


def config(scheme="learned", asked=None, seed=0, split_seed=0, meta_batch=8):
    return Config(
        data=DataConfig(meta=20, select=16, augment=asked, split_seed=split_seed),
        scheme=SchemeConfig(name=scheme),
        meta=MetaConfig(batch=meta_batch),
        optim=OptimConfig(batch=16),
        seed=seed,
    )


def ask(samples=DATA, augment=False, **settings):
    return feed(samples, K, augment, config(**settings), "cpu")


def seen(batches, epoch=0):
    return torch.cat([batch.index for batch in batches.epoch(epoch)]).sort().values


@pytest.mark.parametrize("name", SAMPLES)
def test_the_three_parts_are_disjoint_and_each_is_used_for_its_own(name):
    got = ask(SAMPLES[name])
    assert torch.cat(got.parts).sort().values.tolist() == list(range(N))
    assert [len(part) for part in got.parts] == [84, 20, 16]
    assert torch.equal(seen(got.train), got.parts.train)
    assert set(seen(got.meta).tolist()) <= set(got.parts.meta.tolist())
    assert torch.equal(got.select.x, X[got.parts.select])
    assert torch.equal(got.select.y, DATA.y[got.parts.select])
    assert got.select.x.dtype == torch.uint8


def test_a_method_without_a_meta_set_trains_on_its_samples_and_selects_on_the_same():
    learned, uniform = ask(), ask(scheme="uniform")
    assert uniform.meta is None
    assert len(uniform.parts.meta) == 0
    assert torch.equal(uniform.parts.select, learned.parts.select)
    assert torch.equal(uniform.parts.train, torch.cat([learned.parts.train, learned.parts.meta]).sort().values)


def test_the_splits_follow_their_own_seed_and_the_batches_the_runs():
    first = ask()
    other = ask(seed=1)
    assert all(torch.equal(a, b) for a, b in zip(first.parts, other.parts, strict=True))
    assert not torch.equal(first.train.at(0, 0).index, other.train.at(0, 0).index)
    assert not torch.equal(first.parts.select, ask(split_seed=1).parts.select)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize(("says", "asked", "want"), [(True, None, True), (False, None, False), (True, False, False)])
def test_only_training_batches_are_augmented(name, says, asked, want):
    got = ask(SAMPLES[name], says, asked=asked)
    for batches, augmented in ((got.train, want), (got.meta, False)):
        same = [torch.equal(batch.x, X[batch.index].float() / 255) for batch in batches.epoch(1)]
        assert all(same) != augmented


@pytest.mark.parametrize(("asked", "size"), [(8, 8), (99, 20)])
def test_meta_batches_are_full_and_at_most_the_meta_set(asked, size):
    meta = ask(meta_batch=asked).meta
    assert {len(meta.cycle(t).y) for t in range(9)} == {size}


def test_held_and_lazy_data_give_the_same_batches():
    ours, theirs = ask(LAZY, augment=True), ask(DATA, augment=True)
    for t in range(7):
        for mine, other in ((ours.meta, theirs.meta), (ours.train, theirs.train)):
            assert all(torch.equal(a, b) for a, b in zip(mine.cycle(t), other.cycle(t), strict=True))


def test_the_meta_set_of_a_lazy_set_is_read_once():
    reads = []

    def read(index):
        reads.append(len(index))
        return X[index]

    got = ask(LAZY._replace(read=read))
    assert sorted(reads) == [16, 20]  # select, meta
    for t in range(5):
        got.meta.cycle(t)
    assert len(reads) == 2


def test_the_digest_tells_data_apart():
    pixel, label = X.clone(), DATA.y.clone()
    pixel[7, 0, 0, 0] ^= 1
    label[3] += 1
    held = [DATA, DATA._replace(x=pixel), DATA._replace(y=label), DATA._replace(x=X.float() / 255), LAZY]
    held += [DATA._replace(x=X.view(N, 1, 4, 16)), LAZY._replace(y=label), LAZY._replace(shape=(1, 4, 16))]
    assert len({digest(one) for one in held}) == len(held)
    assert digest(DATA) == digest(Images(X.clone(), DATA.y.clone()))
    assert digest(Images(X.transpose(2, 3).contiguous().transpose(2, 3), DATA.y)) == digest(DATA)
