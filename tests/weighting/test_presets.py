from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from bilaw.losses import LOSSES
from bilaw.weighting import PRESETS, SCHEMES, Gairat, Mail, NonParametric, Uniform, Weighting, Wmmr, preset

# METHOD section 4 ("paper setting", "official-code setting"), its table of burn-ins, and PEERS.
PAPER = {
    "gairat": (Gairat(lam=-1, normalised=True), Fraction(30, 100)),
    "wmmr": (Wmmr(a=0.1, normalised=True, margin_from="adversarial"), Fraction(0)),
    "mail": (Mail(g=5, b=0.05, scale=1, normalised=True, margin_from="adversarial"), Fraction(63, 100)),
}
OFFICIAL = {
    # Batch mean 1, in a mean over the batch, is a sum of 1.
    ("gairat", "adversarial-ce"): (Gairat(lam=-1, normalised=True), Fraction(60, 120)),
    ("wmmr", "adversarial-ce"): (Wmmr(a=0.5, normalised=False), Fraction(0)),
    ("wmmr", "trades"): (Wmmr(a=2, normalised=False), Fraction(0)),
    ("mail", "adversarial-ce"): (Mail(g=10, b=-0.5, scale=3, normalised=False), Fraction(76, 120)),
    ("mail", "trades"): (Mail(g=2, b=0, scale=3, normalised=False), Fraction(76, 120)),
}
ROWS = [
    *(("paper", name, loss, *row) for name, row in PAPER.items() for loss in ("adversarial-ce", "trades")),
    *(("official", *key, *row) for key, row in OFFICIAL.items()),
]
EVERY = [(settings, *key) for settings, table in PRESETS.items() for key in table]
every_preset = pytest.mark.parametrize(("settings", "scheme", "loss"), EVERY)


@pytest.mark.parametrize(("settings", "name", "loss", "scheme", "burn_in"), ROWS)
def test_every_row_of_the_method(settings, name, loss, scheme, burn_in):
    found = preset(name, loss, settings)
    assert found.scheme == scheme
    assert found.burn_in == pytest.approx(float(burn_in), abs=1e-15)


@every_preset
def test_every_preset_is_a_known_scheme_with_a_known_loss(settings, scheme, loss):
    found = preset(scheme, loss, settings)
    assert isinstance(found.scheme, SCHEMES[scheme])
    assert LOSSES[loss]().attacked


@every_preset
def test_the_papers_presets_normalise_and_take_adversarial_margins(settings, scheme, loss):
    found = preset(scheme, loss, settings).scheme
    assert found.normalised or settings == "official"
    assert found.reads <= {"adversarial", "path"}


def test_the_defaults_are_the_papers_for_adversarial_training():
    assert preset("mail") == preset("mail", "adversarial-ce", "paper")
    assert {name: SCHEMES[name]() for name in PAPER} == {name: row[0] for name, row in PAPER.items()}


def in_burn_in(weighting, epochs):
    at = [weighting.at(epoch, epochs) for epoch in range(epochs)]
    return [scheme is not weighting.scheme for scheme in at], at


@every_preset
def test_a_preset_switches_once_from_uniform_to_its_scheme(settings, scheme, loss):
    weighting = preset(scheme, loss, settings)
    exact = Fraction(weighting.burn_in).limit_denominator(1000)  # what was meant: 0.3 is 3/10
    for epochs in (1, 7, 30, 100, 120, 200):
        early, at = in_burn_in(weighting, epochs)
        first = math.ceil(exact * epochs)
        assert early == [True] * first + [False] * (epochs - first)
        assert all(one == Uniform() for one in at[:first])


@pytest.mark.parametrize(
    ("scheme", "settings", "epochs", "first"),
    [
        ("gairat", "paper", 100, 30),
        ("mail", "paper", 100, 63),
        ("wmmr", "paper", 100, 0),
        ("gairat", "official", 120, 60),
        ("mail", "official", 120, 76),
        ("wmmr", "official", 120, 0),
    ],
)
def test_the_first_weighted_epoch(scheme, settings, epochs, first):
    weighting = preset(scheme, settings=settings)
    for epoch in range(epochs):
        expected = Uniform() if epoch < first else weighting.scheme
        assert weighting.at(epoch, epochs) == expected


def test_burn_in_of_a_whole_number_of_epochs_is_that_number():
    """7 % of 100 epochs is 7, although 0.07 * 100 is 7.000000000000001."""
    counted = [sum(in_burn_in(Weighting(Gairat(), c / 100), 100)[0]) for c in range(101)]
    assert counted == list(range(101))


@pytest.mark.parametrize("epochs", [1, 2, 99, 100])
def test_no_burn_in_and_nothing_but_burn_in(epochs):
    assert not any(in_burn_in(Weighting(Gairat()), epochs)[0])
    assert all(in_burn_in(Weighting(Gairat(), burn_in=1), epochs)[0])


def test_a_learning_scheme_may_burn_in_too():
    weighting = Weighting(NonParametric(), burn_in=0.5)
    assert isinstance(weighting.at(0, 2), Uniform)
    assert weighting.at(1, 2) is weighting.scheme


@pytest.mark.parametrize(
    ("asked", "names", "accepted"),
    [
        (("mail", "trades", "offical"), "'offical'", "one of official, paper (did you mean 'official'?)"),
        (("mail", "trades", None), "None", "one of official, paper"),
        (("mial", "trades", "paper"), "mial with trades", "mail with trades"),
        (("mail", "mart", "official"), "mail with mart", "mail with trades"),
        (("mail", "plain", "official"), "mail with plain", "mail with trades"),
        (("uniform", "trades", "paper"), "uniform with trades", "wmmr with trades"),
        (("gairat", "trades", "official"), "gairat with trades", "gairat with adversarial-ce"),
        ((None, "trades", "paper"), "None with trades", "wmmr with trades"),
        ((["mail"], "trades", "paper"), "['mail'] with trades", "wmmr with trades"),
    ],
)
def test_unknown_names_are_refused_with_what_is_accepted(asked, names, accepted):
    with pytest.raises(ValueError, match="is not accepted; it takes one of") as caught:
        preset(*asked)
    refused, _, takes = str(caught.value).partition(" is not accepted; it takes ")
    assert names in refused
    assert accepted in takes


def test_a_preset_can_be_varied_and_stays_as_it_was():
    mail = preset("mail")
    varied = replace(mail, burn_in=0.1)
    assert (varied.burn_in, preset("mail").burn_in) == (0.1, 0.63)
