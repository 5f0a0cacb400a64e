import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bilaw.datasets.splits import class_counts, default_size, quotas, split


@st.composite
def problems(draw):
    classes = draw(st.integers(2, 7))
    meta, select = draw(st.integers(0, 25)), draw(st.integers(0, 25))
    least = -(-meta // classes) + -(-select // classes) + 1
    sizes = draw(st.lists(st.integers(least, least + 20), min_size=classes, max_size=classes))
    y = torch.cat([torch.full((n,), c) for c, n in enumerate(sizes)])
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    return y[order], classes, meta, select, draw(st.integers(0, 2**31))


@given(problems())
def test_a_split_is_disjoint_covers_everything_and_is_balanced(problem):
    y, classes, meta, select, seed = problem
    parts = split(y, classes, meta=meta, select=select, seed=seed)
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(len(y)))
    assert (len(parts.meta), len(parts.select)) == (meta, select)
    for part in parts:
        assert part.dtype == torch.int64
        assert torch.equal(part, part.sort().values)
    for part in (parts.meta, parts.select):
        counts = torch.bincount(y[part], minlength=classes)
        assert int(counts.max() - counts.min()) <= 1
    again = split(y, classes, meta=meta, select=select, seed=seed)
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))


@given(problems())
def test_select_does_not_depend_on_the_size_of_meta(problem):
    y, classes, meta, select, seed = problem
    with_meta = split(y, classes, meta=meta, select=select, seed=seed)
    without = split(y, classes, meta=0, select=select, seed=seed)
    assert torch.equal(with_meta.select, without.select)
    assert torch.equal(torch.cat([with_meta.train, with_meta.meta]).sort().values, without.train)


def test_another_seed_gives_another_split():
    y = torch.arange(6000) % 10
    assert not torch.equal(split(y, 10, 100, 100, seed=0).meta, split(y, 10, 100, 100, seed=1).meta)


def test_the_papers_sizes_are_the_default_and_small_sets_give_a_share():
    parts = split(torch.arange(60_000) % 10, 10)
    assert [len(part) for part in parts] == [58_000, 1000, 1000]
    assert default_size(1347) == 202
    assert int(quotas(202, 10, 0, "meta").sum()) == 202


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: split(torch.tensor([0, 0, 0, 1]), 2, 2, 2), "class 1 has 1 samples"),
        (lambda: split(torch.arange(100) % 2, 2, -1, 2), "meta = -1"),
        (lambda: split(torch.arange(100) % 2, 2, 1, True), "select = True"),
        (lambda: split(torch.arange(100) % 3, 2, 2, 2), "labels = '0..2'"),
        (lambda: split(torch.rand(100), 2, 2, 2), "a vector of integers"),
        (lambda: class_counts(torch.zeros(4, dtype=torch.int64), 1), "classes = 1"),
    ],
)
def test_what_cannot_be_split_is_refused(call, says):
    with pytest.raises(ValueError, match="is not accepted") as refusal:
        call()
    assert says in str(refusal.value)
