from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from weighting.cases import CASES, CLASSES, K, an_omega, reorder, situation

from bilaw.types import Adversarial, MetaScheme, Scheme, Terms
from bilaw.weighting import (
    SCHEMES,
    Gairat,
    Learned,
    Mail,
    NonParametric,
    Omega,
    Uniform,
    Weighting,
    WeightNet,
    Wmmr,
    normalise,
)

TRIVIAL = {"uniform", "non-parametric"}  # they look at nothing of the batch
every_case = pytest.mark.parametrize("case", CASES, ids=str)
sizes = st.integers(1, 12)
seeds = st.integers(0, 2**31)


def others(terms, adversarial):
    """What a scheme could read, each changed."""
    return {
        "clean": (terms._replace(logits=-terms.logits), adversarial),
        "adversarial": (terms._replace(logits_adv=-terms.logits_adv), adversarial),
        "path": (terms, adversarial._replace(survived=K - adversarial.survived)),
    }


def test_every_member_of_the_table_has_a_case():
    assert {case.name for case in CASES} == set(SCHEMES)


@every_case
@settings(max_examples=6, deadline=None)
@given(size=sizes, classes=st.integers(2, 12), seed=seeds, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_raw_weights_are_a_non_negative_finite_number_per_sample(case, size, classes, seed, dtype):
    scheme = case.build(classes, dtype)
    raw = scheme(*situation(size, classes, seed, dtype)).detach()
    assert raw.shape == (size,)
    assert raw.dtype == dtype
    assert raw.isfinite().all()
    assert (raw >= 0).all()
    w = normalise(raw, scheme.normalised)
    assert w.shape == (size,)
    if scheme.normalised:
        assert float(w.sum()) == pytest.approx(1, abs=1e-6)


@every_case
@settings(max_examples=6, deadline=None)
@given(size=sizes, seed=seeds, data=st.data())
def test_a_permuted_batch_has_permuted_weights(case, size, seed, data):
    scheme, given_batch = case.build(), situation(size, seed=seed)
    order = torch.tensor(data.draw(st.permutations(range(size))))
    permuted = scheme(*reorder(order, *given_batch))
    torch.testing.assert_close(permuted, scheme(*given_batch)[order], rtol=1e-12, atol=0)


@every_case
def test_what_a_scheme_learns_is_equivariant_too(case):
    scheme, twin = case.build(), case.build()
    if not isinstance(scheme, MetaScheme):
        return
    batch, s = situation(), torch.linspace(-1, 2, 6, dtype=torch.float64)
    order = torch.tensor([3, 0, 5, 1, 2, 4])
    learned = scheme.learn(normalise(scheme(*batch)), s, beta=0.1)
    mirrored = reorder(order, *batch)
    learned_twin = twin.learn(normalise(twin(*mirrored)), s[order], beta=0.1)
    raw = learned(*batch).detach()
    assert raw.isfinite().all()
    assert (raw >= 0).all()
    torch.testing.assert_close(learned_twin(*mirrored).detach(), raw[order], rtol=1e-12, atol=0)


@every_case
def test_the_weight_of_a_sample_depends_on_no_other_sample(case):
    scheme, batch = case.build(), situation()
    alone = torch.cat([scheme(*reorder(torch.tensor([i]), *batch)) for i in range(6)])
    torch.testing.assert_close(scheme(*batch), alone, rtol=1e-12, atol=0)


@every_case
def test_weights_are_constants_for_theta(case):
    theta = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    terms, adversarial, y = situation(theta=theta)
    assert all(part.requires_grad for part in terms)
    scheme = case.build()
    schemes = [scheme]
    if isinstance(scheme, MetaScheme):
        w = normalise(scheme(terms, adversarial, y))
        schemes.append(scheme.learn(w, torch.arange(6, dtype=torch.float64), beta=0.1))
    for one in schemes:
        raw = one(terms, adversarial, y)
        if raw.requires_grad:  # a gradient to mu is welcome
            gradients = torch.autograd.grad(raw.sum(), [theta, *terms], allow_unused=True)
            assert all(gradient is None for gradient in gradients)
    assert theta.grad is None


@every_case
def test_reads_names_exactly_what_the_weights_depend_on(case):
    scheme, (terms, adversarial, y) = case.build(), situation()
    changed = others(terms, adversarial)
    assert isinstance(scheme.reads, frozenset)
    assert scheme.reads <= set(changed)
    assert bool(scheme.reads) == (case.name not in TRIVIAL)
    before = scheme(terms, adversarial, y)
    for source, (other_terms, other_adversarial) in changed.items():
        same = torch.equal(scheme(other_terms, other_adversarial, y), before)
        assert same == (source not in scheme.reads), source


@every_case
def test_what_is_not_read_need_not_be_there_and_loss_values_are_never_read(case):
    scheme, (terms, adversarial, y) = case.build(), situation()
    least = Terms(
        fixed=terms.fixed + 1,
        robust=2 * terms.robust,
        logits=terms.logits if "clean" in scheme.reads else None,
        logits_adv=terms.logits_adv if "adversarial" in scheme.reads else None,
    )
    path = adversarial if "path" in scheme.reads else Adversarial(adversarial.x, torch.zeros_like(y), steps=0)
    torch.testing.assert_close(scheme(least, path, y), scheme(terms, adversarial, y), rtol=0, atol=0)


@every_case
def test_logits_that_are_read_but_absent_are_a_clear_error(case):
    scheme, (terms, adversarial, y) = case.build(), situation()
    if scheme.reads & {"clean", "adversarial"}:
        with pytest.raises(ValueError, match="logits"):
            scheme(terms._replace(logits=None, logits_adv=None), adversarial, y)


@every_case
def test_logits_that_are_not_numbers_end_in_a_clear_error(case):
    scheme, (terms, adversarial, y) = case.build(), situation()
    if scheme.reads & {"clean", "adversarial"}:
        broken = torch.full((6, CLASSES), math.nan, dtype=torch.float64)
        raw = scheme(terms._replace(logits=broken, logits_adv=broken), adversarial, y)
        with pytest.raises(ValueError, match="nan at place 0"):
            normalise(raw, scheme.normalised)


@every_case
def test_extreme_logits_still_give_weights(case):
    scheme = case.build(dtype=torch.float32)
    terms, adversarial, y = situation(dtype=torch.float32)
    extreme = terms._replace(logits=terms.logits * 1e4, logits_adv=terms.logits_adv * 1e4)
    w = normalise(scheme(extreme, adversarial, y), scheme.normalised)
    assert w.isfinite().all()


@every_case
def test_every_scheme_satisfies_the_protocol(case):
    scheme = case.build()
    assert isinstance(scheme.normalised, bool)
    assert all(hasattr(scheme, name) for name in ("normalised", "reads", "__call__"))
    assert isinstance(scheme, MetaScheme) == hasattr(scheme, "learn")
    assert isinstance(scheme, MetaScheme) or case.name not in {"learned", "non-parametric"}
    fixed: Scheme = scheme
    assert callable(fixed)


# Theory: what falls sooner, or lies nearer the boundary, weighs more.


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(1, 40), lam=st.floats(-3, 3))
def test_gairat_falls_as_more_iterates_stay_correct(steps, lam):
    kappa = torch.arange(steps + 1)
    nothing = torch.zeros(steps + 1, dtype=torch.float64)
    path = Adversarial(torch.zeros(steps + 1, 1), kappa, steps)
    raw = Gairat(lam=lam)(Terms(nothing, nothing, None, None), path, torch.zeros_like(kappa))
    assert (raw.diff() < 0).all()
    assert (raw > 0).all()
    assert (raw < 1).all()


@settings(max_examples=30, deadline=None)
@given(
    gaps=st.lists(st.integers(-300, 300), min_size=2, max_size=10, unique=True),
    scheme=st.one_of(
        st.builds(Wmmr, a=st.floats(0.01, 10), margin_from=st.sampled_from(["clean", "adversarial"])),
        st.builds(Mail, g=st.floats(0.01, 10), b=st.floats(-1, 1), scale=st.floats(0.1, 3)),
    ),
)
def test_wmmr_and_mail_fall_as_the_margin_grows(gaps, scheme):
    z = torch.tensor(sorted(gaps), dtype=torch.float64) / 100  # the margin tanh(z / 2) grows with z
    logits = torch.stack([z, torch.zeros_like(z)], dim=1)
    zero, y = torch.zeros_like(z), torch.zeros(len(z), dtype=torch.int64)
    path = Adversarial(torch.zeros(len(z), 1), y, K)
    assert (scheme(Terms(zero, zero, logits, logits), path, y).diff() < 0).all()


@pytest.mark.parametrize("scheme", [Wmmr(a=0), Mail(g=0)], ids=["wmmr", "mail"])
def test_a_slope_of_zero_weighs_all_alike(scheme):
    raw = scheme(*situation())
    assert torch.equal(raw, raw[:1].expand(6))


def test_gairat_refuses_an_attack_without_iterations():
    terms, adversarial, y = situation()
    with pytest.raises(ValueError, match="attack = 'none' is not accepted; it takes an attack with iterations"):
        Gairat()(terms, adversarial._replace(steps=0), y)


# Settings that make no sense.

NAN, INF = math.nan, math.inf
NOT_NUMBERS = [NAN, INF, -INF, "1", None, True, 1j]
NET = WeightNet(CLASSES)
BAD = [
    *(("a", value, Wmmr, "finite number >= 0") for value in [-0.1, -1, *NOT_NUMBERS]),
    *(("g", value, Mail, "finite number >= 0") for value in [-0.1, *NOT_NUMBERS]),
    *(("b", value, Mail, "finite number") for value in NOT_NUMBERS),
    *(("scale", value, Mail, "finite number > 0") for value in [0, -1, *NOT_NUMBERS]),
    *(("lam", value, Gairat, "finite number") for value in NOT_NUMBERS),
    *(
        ("margin_from", value, scheme, "one of adversarial, clean")
        for scheme in (Wmmr, Mail, lambda **setting: Omega(NET, **setting))
        for value in ["", "adv", "Clean", "both", None, 3, ["clean"]]
    ),
    *(
        ("features", value, lambda **setting: Omega(NET, **setting), "one of adversarial-loss, loss-difference")
        for value in ["", "margins", "multiclass_margin", None, 0, ["margin"]]
    ),
    *(
        ("burn_in", value, lambda **setting: Weighting(Uniform(), **setting), wanted)
        for value, wanted in [
            (-0.1, "finite number >= 0"),
            (1.1, "from 0 to 1"),
            (30, "from 0 to 1"),
            *((value, "finite number >= 0") for value in NOT_NUMBERS),
        ]
    ),
]


@pytest.mark.parametrize(
    ("setting", "value", "build", "accepted"), BAD, ids=[f"{setting}={value!r}" for setting, value, *_ in BAD]
)
def test_a_bad_setting_is_refused_by_name_value_and_what_is_accepted(setting, value, build, accepted):
    with pytest.raises(ValueError, match="is not accepted; it takes") as caught:
        build(**{setting: value})
    assert str(caught.value).startswith(f"{setting} = {value!r} is not accepted")
    assert accepted in str(caught.value)


@pytest.mark.parametrize(("typed", "meant"), [("margins", "margin"), ("adversarial_loss", "adversarial-loss")])
def test_a_misspelt_feature_is_answered_with_the_nearest(typed, meant):
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        Omega(NET, features=typed)


def test_settings_at_the_edge_are_accepted():
    Wmmr(a=0), Mail(g=0, b=-1), Gairat(lam=-3), Weighting(Uniform(), 1), Weighting(Uniform(), 0)


def test_non_parametric_looks_ahead_at_equal_weights_and_then_weighs_by_alignment():
    batch, s = situation(), torch.tensor([-2.0, 0.0, 0.5, 3.0, -0.0, 1.5])
    scheme = NonParametric()
    ahead = scheme(*batch)
    assert torch.equal(ahead, torch.ones(6, dtype=torch.float64))
    learned = scheme.learn(normalise(ahead), s, beta=0.1)
    assert learned(*batch).tolist() == [0, 0, 0.5, 3.0, 0, 1.5]
    assert normalise(learned(*batch)).tolist() == pytest.approx([0, 0, 0.1, 0.6, 0, 0.3])
    assert torch.equal(scheme(*batch), ahead)  # nothing is remembered
    assert normalise(scheme.learn(ahead, -s.abs(), 0.1)(*batch)).tolist() == pytest.approx([1 / 6] * 6)
    with pytest.raises(ValueError, match="nan at place 1"):
        normalise(scheme.learn(ahead, torch.tensor([1.0, NAN]), 0.1)(*batch))


def test_the_learned_scheme_is_its_omega():
    omega, batch = an_omega(margin_from="adversarial"), situation()
    scheme = Learned(omega, torch.optim.Adam(omega.network.parameters()))
    assert torch.equal(scheme(*batch), omega(*batch))
    assert (scheme.reads, scheme.normalised) == (omega.reads, omega.normalised)
    official = an_omega(normalised=False)
    assert Learned(official, torch.optim.Adam(official.network.parameters())).normalised is False
