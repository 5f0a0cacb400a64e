import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bilaw.datasets.splits import about_sizes, class_counts, default_size, fitting_size, quotas, split


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


@given(st.lists(st.integers(3, 400), min_size=2, max_size=12))
def test_the_default_sizes_fit_any_data_with_three_samples_a_class(sizes):
    y = torch.cat([torch.full((n,), c) for c, n in enumerate(sizes)])
    parts = split(y, len(sizes))
    assert len(parts.meta) == len(parts.select) == fitting_size(torch.tensor(sizes)) <= default_size(len(y))
    assert (class_counts(y[parts.train], len(sizes)) >= torch.tensor(sizes) / 3).all()
    assert bool(about_sizes(y, len(sizes), True)) is (len(parts.meta) < default_size(len(y)))


def test_a_small_class_keeps_the_defaults_small_and_says_so():
    y = torch.cat([torch.zeros(900), torch.ones(80), torch.full((20,), 2)]).long()
    parts = split(y, 3)
    assert torch.bincount(y[parts.meta]).tolist() == torch.bincount(y[parts.select]).tolist() == [5, 5, 5]
    (said,) = about_sizes(y, 3, learns=True)
    assert said.startswith("class 2 has 20 of 1000 samples: meta and select hold 15 samples each, not 150; data.meta")
    assert about_sizes(y, 3, learns=False)[0].endswith("select holds 15 samples, not 150; data.select would set it")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: split(torch.arange(40) % 2, 2, None, 90), "data.select = 90 is not accepted"),
        (lambda: split(torch.arange(40) % 2, 2, 90, None), "data.meta = 90 is not accepted"),
        (lambda: split(torch.arange(40) % 2, 2, 20, 30), "data.meta + data.select = 50 is not accepted"),
        (lambda: split(torch.arange(14) % 13, 13), "has 1 samples"),
        (lambda: split(torch.arange(14) % 14, 14, meta=0), "data.select = 2 is not accepted"),
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
