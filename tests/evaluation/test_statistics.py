"""Intervals and tests against published figures, against SciPy, and against what they promise."""

import math
import random

import pytest
import torch
from scipy import stats

from bilaw.evaluation.statistics import (
    Z95,
    Pair,
    bootstrap,
    holm,
    mcnemar,
    pair,
    spread,
    t_probability,
    t_quantile,
    welch,
    wilson,
)

DF = [1, 1.5, 2, 2.7, 3, 4, 5, 7.3, 10, 19, 30, 49.5, 100, 365, 1000]


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [  # Newcombe (1998), Statistics in Medicine 17, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(hits, n, low, high):
    assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("n", [1, 2, 10, 137, 1000])
def test_wilson_inverts_the_score_test(n):
    for hits in range(0, n + 1, max(1, n // 7)):
        for end in wilson(hits, n):
            assert abs(hits / n - end) == pytest.approx(Z95 * math.sqrt(max(end * (1 - end), 0) / n), abs=1e-7)


def test_wilson_stays_in_the_unit_interval_around_the_share_and_mirrors():
    for n in range(1, 40):
        for hits in range(n + 1):
            low, high = wilson(hits, n)
            assert 0 <= low <= hits / n + 1e-12
            assert hits / n - 1e-12 <= high <= 1
            assert (low == 0) is (hits == 0)
            assert (high == 1) is (hits == n)
            assert wilson(n - hits, n) == pytest.approx((1 - high, 1 - low))


@pytest.mark.parametrize(("hits", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_wilson_refuses_counts_that_are_none(hits, n):
    with pytest.raises(ValueError, match="hits of n"):
        wilson(hits, n)


def test_mcnemar_is_the_binomial_test_of_the_discordant_samples():
    for only_a in [0, 1, 2, 5, 17, 60, 400]:
        for only_b in [0, 1, 3, 5, 20, 399]:
            got = mcnemar(Pair(only_a, only_b, 1000))
            both = only_a + only_b
            expected = stats.binomtest(only_a, both).pvalue if both else 1.0
            assert got == pytest.approx(expected, rel=1e-9)
            assert got == mcnemar(Pair(only_b, only_a, 1000))


def test_a_pair_counts_what_only_one_gets_right():
    a = torch.tensor([True, True, False, True, False])
    b = torch.tensor([True, False, True, False, False])
    assert pair(a, b) == Pair(only_a=2, only_b=1, n=5)
    assert pair(a, b).difference == pytest.approx(0.2)
    for wrong in (b[:4], torch.zeros(0, dtype=torch.bool)):
        with pytest.raises(ValueError, match="the same samples"):
            pair(a[: len(wrong)] if not len(wrong) else a, wrong)


@pytest.mark.parametrize("counts", [Pair(120, 80, 1000), Pair(300, 310, 2000), Pair(900, 500, 10_000)])
def test_the_bootstrap_agrees_with_the_normal_approximation_where_that_holds(counts):
    a, b = counts.only_a / counts.n, counts.only_b / counts.n
    half = Z95 * math.sqrt((a + b - (a - b) ** 2) / counts.n)
    low, high = bootstrap(counts)
    assert low == pytest.approx(a - b - half, abs=0.06 * half)
    assert high == pytest.approx(a - b + half, abs=0.06 * half)


def test_the_bootstrap_covers_the_truth_as_often_as_it_says():
    drawn, n, shares = random.Random(0), 400, [0.12, 0.07, 0.81]
    covered = 0
    for trial in range(300):
        which = drawn.choices(range(3), shares, k=n)
        low, high = bootstrap(Pair(which.count(0), which.count(1), n), seed=trial, resamples=1000)
        covered += low <= 0.05 <= high
    assert 0.91 <= covered / 300 <= 0.98


def test_the_bootstrap_is_a_function_of_its_seed():
    counts = Pair(30, 20, 500)
    assert bootstrap(counts, seed=3) == bootstrap(counts, seed=3)
    assert bootstrap(counts, seed=3, resamples=999) != bootstrap(counts, seed=4, resamples=999)
    assert bootstrap(Pair(0, 0, 50)) == (0.0, 0.0)


@pytest.mark.parametrize("df", DF)
def test_students_distribution_is_scipys(df):
    for t in [-30, -3, -0.4, 0, 1e-3, 0.7, 1.96, 2.6, 5, 12, 60]:
        assert t_probability(t, df) == pytest.approx(stats.t.cdf(t, df), abs=2e-7)


@pytest.mark.parametrize("df", DF)
def test_students_quantile_is_scipys(df):
    for p in [0.5, 0.6, 0.9, 0.95, 0.975, 0.995]:
        assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-4, abs=1e-6)


def test_the_spread_is_scipys_interval_of_a_mean():
    values = [0.51, 0.55, 0.49, 0.62, 0.58]
    mean, deviation, low, high = spread(values)
    assert mean == pytest.approx(sum(values) / 5)
    assert deviation == pytest.approx(stats.tstd(values))
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 4, mean, stats.sem(values)), rel=1e-6)
    assert spread([0.5, 0.5])[1:] == pytest.approx((0.0, 0.5, 0.5))
    with pytest.raises(ValueError, match="at least 2"):
        spread([0.5])


def test_welch_is_scipys_and_stays_a_probability():
    drawn = random.Random(1)
    for n, m, apart in [(2, 2, 0), (3, 5, 0.02), (10, 4, 0.1), (6, 6, 0.005), (5, 5, 3.0), (30, 30, 1.0)]:
        a = [drawn.gauss(0.5, 0.01) for _ in range(n)]
        b = [drawn.gauss(0.5 + apart, 0.03) for _ in range(m)]
        got = welch(a, b)
        assert 0 <= got <= 1
        assert got == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue, rel=1e-4, abs=1e-6)
        assert got == welch(b, a)
    for other in (0.5, 0.6):
        with pytest.raises(ValueError, match="two groups that agree throughout"):
            welch([0.5, 0.5], [other, other])
    assert 0 < welch([0.5, 0.5], [0.5, 0.6, 0.7]) < 1


def test_holm_adjusts_as_in_a_hand_example():
    # Sorted: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1; never less than the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_holm_keeps_the_order_and_never_makes_a_p_smaller():
    drawn = random.Random(2)
    for _ in range(50):
        ps = [drawn.random() ** 3 for _ in range(drawn.randint(1, 9))]
        adjusted = holm(ps)
        assert all(p <= more <= min(1.0, p * len(ps)) + 1e-12 for p, more in zip(ps, adjusted, strict=True) if more < 1)
        ranked = [more for _, more in sorted(zip(ps, adjusted, strict=True))]
        assert ranked == sorted(ranked)
