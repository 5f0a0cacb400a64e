from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.rng import generator, seed_of

purposes = st.lists(st.one_of(st.integers(0, 10**9), st.text("abcxyz-", max_size=6)), max_size=3)


@settings(deadline=None)
@given(st.integers(-(2**63), 2**64), purposes)
def test_a_seed_fits_in_63_bits_and_suits_every_library(seed, purpose):
    found = seed_of(seed, *purpose)
    assert 0 <= found < 2**63
    assert seed_of(seed, *purpose) == found
    assert torch.Generator().manual_seed(found).initial_seed() == found


def test_a_hundred_thousand_purposes_have_a_hundred_thousand_seeds():
    names = ("attack", "meta-attack", "noise", "order", "augment")
    seeds = {seed_of(seed, name, t) for seed in range(20) for name in names for t in range(1000)}
    assert len(seeds) == 100_000


def test_seeds_fill_their_range():
    drawn = torch.tensor([seed_of(0, "attack", t) / 2**63 for t in range(10_000)], dtype=torch.float64)
    counts = torch.histc(drawn, bins=10, min=0, max=1)
    assert int(counts.sum()) == 10_000
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 27.9  # chi-squared, 9 degrees of freedom: 1 in 1000


GOLDEN = {
    (0,): 4_761_921_975_702_974_394,
    (0, "attack", 0): 7_209_368_363_894_585_561,
    (0, "attack", 1): 4_537_497_467_547_751_802,
    (1, "attack", 0): 7_602_120_069_372_052_119,
    (0, "meta-attack", 7): 7_910_521_615_965_084_650,
    (-1, "noise", 2**40): 8_797_535_501_806_498_767,
}


@pytest.mark.parametrize(("purpose", "expected"), list(GOLDEN.items()))
def test_a_seed_never_changes_from_one_release_to_the_next(purpose, expected):
    """A saved run goes on with the numbers it began with only as long as these hold."""
    assert seed_of(*purpose) == expected


def test_seeds_do_not_depend_on_the_process():
    """As those of `hash` do, unless PYTHONHASHSEED is set."""
    code = (
        "import sys, types; sys.modules['torch'] = types.ModuleType('torch')\n"  # importing the real one is slow
        "sys.modules['torch'].device = sys.modules['torch'].Generator = str\n"
        "import importlib.util as u; spec = u.spec_from_file_location('rng', sys.argv[1])\n"
        "rng = u.module_from_spec(spec); spec.loader.exec_module(rng); print(rng.seed_of(0, 'attack', 7))"
    )
    path = sys.modules[seed_of.__module__].__file__
    for hash_seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-S", "-c", code, path],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(run.stdout) == seed_of(0, "attack", 7)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((0, "a", 1), (0, "a", 2)),
        ((0, "a", 1), (1, "a", 1)),
        ((0, "a", 1), (0, "b", 1)),
        ((0, "a"), (0, "a", 0)),
        ((0, "a", 11), (0, "a1", 1)),
        ((1, 23), (12, 3)),
        ((0, "a", "b"), (0, "b", "a")),
        ((0,), (0, "")),
        ((1,), (-1,)),
    ],
)
def test_purposes_that_look_alike_differ(one, other):
    assert seed_of(*one) != seed_of(*other)


@pytest.mark.parametrize(("one", "other"), [((0, "a/b"), (0, "a", "b")), ((0, "a/1"), (0, "a", 1))])
def test_a_slash_in_a_purpose_does_not_make_it_two(one, other):
    assert seed_of(*one) != seed_of(*other)


def test_a_generator_is_a_function_of_its_purpose():
    one, same = generator(3, "attack", 5), generator(3, "attack", 5)
    assert one is not same
    assert torch.equal(one.get_state(), same.get_state())
    assert torch.equal(torch.rand(100, generator=one), torch.rand(100, generator=same))
    for other in (generator(3, "attack", 6), generator(4, "attack", 5), generator(3, "meta-attack", 5)):
        assert not torch.equal(torch.rand(100, generator=other), torch.rand(100, generator=generator(3, "attack", 5)))
    assert one.initial_seed() == seed_of(3, "attack", 5)


def test_generators_leave_the_global_state_alone():
    before = torch.get_rng_state()
    torch.rand(10, generator=generator(0, "attack", 0))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_lives_on_the_device_asked_for():
    assert generator(0, "attack", 0).device == torch.device("cpu")
    assert generator(0, "attack", 0, device=torch.device("cpu")).device == torch.device("cpu")
