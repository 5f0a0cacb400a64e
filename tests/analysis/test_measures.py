"""The numbers behind figures, against others' computations of the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix

from bilaw.analysis import measures


def drawn(seed=0, n=200, k=7):
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(n, k)), rng.integers(0, k, n)


def test_the_confusion_matrix_is_scikit_learns():
    _, logits, y = drawn()
    found = measures.confusion(y, logits.argmax(1), 7)
    assert found.tolist() == confusion_matrix(y, logits.argmax(1), labels=range(7)).tolist()


def test_ranks_are_places_in_the_sorted_logits():
    rng, logits, _ = drawn()
    predicted = rng.integers(0, 7, 200)
    expected = [0] * 7
    for row, c in zip(logits, predicted, strict=True):
        expected[sorted(range(7), key=lambda j, row=row: -row[j]).index(c)] += 1
    assert measures.adversarial_ranks(logits, predicted).tolist() == expected[1:]


def test_a_tie_with_the_prediction_is_the_runner_up():
    assert measures.adversarial_ranks(np.array([[1.0, 1.0, 0.0]]), np.array([1])).tolist() == [1, 0]


@pytest.mark.parametrize(("n", "k"), [(100, 7), (5, 7), (50, 2), (30, 40)])
def test_pca_is_scikit_learns_but_for_the_signs(n, k):
    values = measures.softmax(np.random.default_rng(n).normal(size=(n, k)) * 2)
    dims = min(3, k, n)
    at, axes, share = measures.pca(values, 3)
    theirs = PCA(dims).fit(values)
    real = min(dims, n - 1, k - 1)  # likelihoods sum to one, and n points span n - 1 dimensions
    assert np.abs(at[:, :real]) == pytest.approx(np.abs(theirs.transform(values)[:, :real]), abs=1e-7)
    assert share[:dims] == pytest.approx(theirs.explained_variance_ratio_, abs=1e-9)
    assert at.shape == (n, 3)
    assert all(one[np.abs(one).argmax()] > 0 for one in axes[:real])


def test_pca_of_equal_points_is_zero():
    at, _, share = measures.pca(np.ones((5, 4)))
    assert not at.any()
    assert not share.any()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=2, max_size=40))
def test_ranks_and_their_correlation_are_scipys(pairs):
    a, b = np.array(pairs, dtype=float).T
    assert measures.ranked(a).tolist() == rankdata(a).tolist()
    found = measures.rank_correlation(a, b)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert found is None
    else:
        assert found == pytest.approx(spearmanr(a, b).statistic)


def test_margins_are_the_definition():
    _, logits, y = drawn(3)
    for row, label, m in zip(logits, y, measures.margins(logits, y), strict=True):
        p = np.exp(row) / np.exp(row).sum()
        assert m == pytest.approx(p[label] - max(p[j] for j in range(7) if j != label))


def test_quantiles_and_shares_of_a_class_that_is_absent_are_no_numbers():
    y, values = np.array([0, 0, 0, 2]), np.array([1.0, 2.0, 3.0, 5.0])
    found = measures.quantiles(values, y, 3)
    assert found[0].tolist() == pytest.approx([1.1, 1.5, 2, 2.5, 2.9])
    assert np.isnan(found[1]).all()
    assert found[2].tolist() == [5] * 5
    right = measures.shares(np.array([True, False, True, True]), y, 3)
    assert right[:, 3].tolist() == [3, 0, 1]
    assert right[0, 0] == pytest.approx(2 / 3)
    assert np.isnan(right[1, :3]).all()
    assert (right[[0, 2], 1] <= right[[0, 2], 0]).all()
