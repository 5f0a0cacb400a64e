"""What is said of means, of differences from a printed figure, of ratios: against SciPy and by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from bilaw.reproduction.hypotheses import HOLDS, NOT, UNDECIDED, _t, drawn_anew, judged
from bilaw.reproduction.inference import apart, mean, speedup
from bilaw.reproduction.weights import spearman

SEEDS = [0.741, 0.748, 0.733, 0.751]


@pytest.mark.parametrize("values", [SEEDS[:2], SEEDS[:3], SEEDS])
def test_several_seeds_get_students_interval(values):
    got = mean(values, 10_000)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert got == pytest.approx((np.mean(values), low, high), abs=1e-9)


@pytest.mark.parametrize(("hits", "n"), [(741, 1000), (0, 50), (50, 50), (8411, 10_000)])
def test_a_single_seed_gets_wilsons_interval(hits, n):
    got = mean([hits / n], n)
    theirs = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
    assert got == pytest.approx((hits / n, theirs.low, theirs.high), abs=1e-9)


def test_a_single_seed_is_compared_with_print_as_two_samples_of_images():
    ours, printed = 0.80, 0.82
    z = (ours - printed) / math.sqrt(ours * 0.2 / 1000 + printed * 0.18 / 10_000)
    assert apart([ours], 1000, printed) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-9)
    assert apart([0.0], 1000, 0.0) == 1
    assert apart([1.0], 1000, 0.0) == 0


def test_several_seeds_take_the_printed_figure_for_one_more_of_them():
    k, deviation = len(SEEDS), np.std(SEEDS, ddof=1)
    t = (np.mean(SEEDS) - 0.70) / (deviation * math.sqrt(1 + 1 / k))
    assert apart(SEEDS, 10_000, 0.70) == pytest.approx(2 * stats.t.sf(t, k - 1), abs=1e-9)
    assert apart(SEEDS, 1000, 0.70) > apart(SEEDS, 10_000, 0.70)  # part of a test set leaves more open


def test_the_printed_figure_is_found_different_as_often_as_promised():
    """Drawn from the same seeds' distribution, at most 5 % of the printed figures count as different."""
    drawn = np.random.default_rng(0)
    found = [apart(list(values[:3]), 10_000, values[3]) < 0.05 for values in drawn.normal(0.74, 0.004, (1500, 4))]
    assert 0.035 < np.mean(found) < 0.065


def test_seeds_that_agree_throughout_are_judged_by_their_images():
    assert apart([0.8, 0.8], 1000, 0.82) == apart([0.8], 1000, 0.82)


def test_a_speedup_is_the_ratio_of_medians_and_its_interval_holds_it():
    drawn = np.random.default_rng(1)
    base, other = drawn.normal(1.0, 0.05, 25), drawn.normal(0.25, 0.02, 25)
    got = speedup(list(base), list(other))
    assert got.mean == pytest.approx(np.median(base) / np.median(other))
    assert got.low < got.mean < got.high
    assert 3.5 < got.low < 4 < got.high < 4.5
    assert speedup(list(base), list(base)) == (1, 1, 1)  # turns are drawn together


def test_paired_t_is_scipys():
    ours = [1.2, 0.4, 0.9]
    assert _t(ours) == pytest.approx(stats.ttest_1samp(ours, 0).pvalue, abs=1e-9)


def test_the_bootstrap_of_a_mean_is_near_the_normal_interval():
    values = np.random.default_rng(2).integers(-1, 2, 1000).astype(float)
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert drawn_anew(values) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.006)


@pytest.mark.parametrize("seed", range(3))
def test_spearman_is_scipys_with_ties_too(seed):
    drawn = np.random.default_rng(seed)
    a = drawn.integers(0, 20, 300).astype(float)
    b = a * drawn.choice([-1, 1]) + drawn.normal(0, 8, 300).round()
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)


def test_spearman_of_what_does_not_vary_is_none():
    assert spearman(np.ones(9), np.arange(9.0)) is None


@pytest.mark.parametrize(
    ("low", "high", "slack", "verdict"),
    [
        (0.01, 1, 0, HOLDS),
        (-1, -0.01, 0, NOT),
        (-1, 1, 0, UNDECIDED),
        (0, 1, 0, UNDECIDED),
        (-0.4, 0.1, 0.5, HOLDS),
        (-0.4, -0.1, 0.5, HOLDS),
        (-2, -0.6, 0.5, NOT),
        (-2, 0, 0.5, UNDECIDED),
    ],
)
def test_a_claim_is_judged_by_where_its_interval_lies(low, high, slack, verdict):
    assert judged(low, high, slack) == verdict
