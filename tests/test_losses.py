import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.attacks import OBJECTIVES, PGD, STARTS
from bilaw.losses import LOSSES, AdversarialCE, Mart, Plain, Trades
from bilaw.losses.kl import kl
from bilaw.types import Adversarial, Batch, Terms

FLOAT64 = {"dtype": torch.float64}


def identity(x):
    """Be the classifier whose logits are the images, so that a test chooses both."""
    return x


def pair(clean, adv, labels):
    """Return the batch of those logits and what an attack made of it."""
    y = torch.as_tensor(labels)
    batch = Batch(torch.as_tensor(clean), y, torch.arange(len(y)))
    return batch, Adversarial(torch.as_tensor(adv), torch.zeros_like(y), 10)


def drawn(n=6, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z, z_adv = 2 * torch.randn(2, n, classes, generator=generator, **FLOAT64)
    return z, z_adv, torch.arange(n) % classes


# The formulas, in plain Python


def log_p(row):
    top = max(row)
    total = top + math.log(math.fsum(math.exp(z - top) for z in row))
    return [z - total for z in row]


def kl_by_hand(row, adv):
    return math.fsum(math.exp(a) * (a - b) for a, b in zip(log_p(row), log_p(adv), strict=True))


def mart_by_hand(row, adv, y, strength):
    rival = max(math.exp(value) for j, value in enumerate(log_p(adv)) if j != y)
    doubt = 1 - math.exp(log_p(row)[y])
    return -log_p(adv)[y] - math.log(1 - rival) + strength * kl_by_hand(row, adv) * doubt


BY_HAND = {  # (fixed, robust) of one sample
    "plain": lambda row, adv, y: (-log_p(row)[y], 0.0),
    "adversarial-ce": lambda row, adv, y: (0.0, -log_p(adv)[y]),
    "trades": lambda row, adv, y: (-log_p(row)[y], 6 * kl_by_hand(row, adv)),
    "mart": lambda row, adv, y: (0.0, mart_by_hand(row, adv, y, 5)),
}


@st.composite
def logits(draw):
    classes = draw(st.integers(2, 5))
    row = st.lists(st.floats(-6, 6), min_size=classes, max_size=classes)
    n = draw(st.integers(1, 4))
    clean, adv = ([draw(row) for _ in range(n)] for _ in range(2))
    return clean, adv, [draw(st.integers(0, classes - 1)) for _ in range(n)]


@pytest.mark.parametrize("name", LOSSES)
@settings(deadline=None, max_examples=60)
@given(logits())
def test_every_loss_by_hand(name, sample):
    clean, adv, labels = sample
    batch, found = pair(torch.tensor(clean, **FLOAT64), torch.tensor(adv, **FLOAT64), labels)
    terms = LOSSES[name]()(identity, batch, found)
    expected = torch.tensor([BY_HAND[name](*one) for one in zip(clean, adv, labels, strict=True)], **FLOAT64)
    assert terms.fixed.shape == terms.robust.shape == batch.y.shape
    torch.testing.assert_close(terms.fixed, expected[:, 0], rtol=1e-8, atol=1e-11)
    torch.testing.assert_close(terms.robust, expected[:, 1], rtol=1e-8, atol=1e-11)


def test_golden_values():
    """p = (1/2, 1/4, 1/4), p_adv = (1/4, 1/2, 1/4): KL = log(2)/2 - log(2)/4."""
    batch, found = pair(
        torch.tensor([[0.5, 0.25, 0.25]], **FLOAT64).log(), torch.tensor([[0.25, 0.5, 0.25]], **FLOAT64).log(), [0]
    )
    two = math.log(2)
    for loss, fixed, robust in [
        (Plain(), two, 0),
        (AdversarialCE(), 0, 2 * two),
        (Trades(), two, 6 * two / 4),
        (Trades(1.0), two, two / 4),
        (Mart(), 0, 2 * two + two + 5 * two / 4 / 2),
        (Mart(0), 0, 3 * two),
    ]:
        terms = loss(identity, batch, found)
        assert terms.fixed.item() == pytest.approx(fixed, rel=1e-12)
        assert terms.robust.item() == pytest.approx(robust, rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_name_what_they_looked_at_and_what_attacks_them(name):
    loss = LOSSES[name]()
    z, z_adv, y = drawn()
    batch, found = pair(z, z_adv, y)
    seen = []

    def f(x):
        seen.append(x)
        return 2 * x

    terms = loss(f, batch, found)
    assert isinstance(terms, Terms)
    looked_clean, looked_adv = (any(x is part for x in seen) for part in (batch.x, found.x))
    assert len(seen) == looked_clean + looked_adv  # one forward each, no more
    assert looked_adv is loss.attacked
    for looked, logits, x in [(looked_clean, terms.logits, z), (looked_adv, terms.logits_adv, z_adv)]:
        assert (logits is not None) is looked
        assert logits is None or torch.equal(logits, 2 * x)
    if looked_clean and looked_adv:
        assert seen[0] is batch.x  # BatchNorm sees the clean batch first
    assert loss.objective in OBJECTIVES
    assert loss.start in STARTS
    PGD(0.1, objective=loss.objective, start=loss.start)


def test_each_loss_is_attacked_as_the_method_says():
    assert {name: (L.attacked, L.objective, L.start) for name, L in LOSSES.items() if name != "plain"} == {
        "adversarial-ce": (True, "ce", "uniform"),
        "trades": (True, "kl", "gaussian"),
        "mart": (True, "ce", "gaussian"),
    }
    assert not Plain.attacked


def total_and_gradients(loss, z, z_adv, y):
    z, z_adv = z.clone().requires_grad_(), z_adv.clone().requires_grad_()
    terms = loss(identity, *pair(z, z_adv, y))
    total = terms.fixed + terms.robust
    gradients = torch.autograd.grad(total.sum(), (z, z_adv), allow_unused=True, materialize_grads=True)
    return total.detach(), *gradients


def probabilities(z, z_adv, y):
    return z.softmax(1), z_adv.softmax(1), torch.nn.functional.one_hot(y, z.shape[1])


def test_adversarial_ce_has_the_gradient_of_cross_entropy():
    z, z_adv, y = drawn()
    _, clean, adv = total_and_gradients(AdversarialCE(), z, z_adv, y)
    _, q, own = probabilities(z, z_adv, y)
    assert not clean.any()
    torch.testing.assert_close(adv, q - own)


def test_plain_has_the_gradient_of_cross_entropy_on_the_clean_side():
    z, z_adv, y = drawn()
    _, clean, adv = total_and_gradients(Plain(), z, z_adv, y)
    p, _, own = probabilities(z, z_adv, y)
    assert not adv.any()
    torch.testing.assert_close(clean, p - own)


@pytest.mark.parametrize("inv_lambda", [0, 0.5, 6, 10.0])
def test_trades_has_a_gradient_on_both_sides_of_the_divergence(inv_lambda):
    z, z_adv, y = drawn()
    _, clean, adv = total_and_gradients(Trades(inv_lambda), z, z_adv, y)
    p, q, own = probabilities(z, z_adv, y)
    ratio = (p / q).log()
    divergence = (p * ratio).sum(1, keepdim=True)
    torch.testing.assert_close(adv, inv_lambda * (q - p))
    torch.testing.assert_close(clean, p - own + inv_lambda * p * (ratio - divergence))


def test_trades_without_its_divergence_is_plain_training():
    z, z_adv, y = drawn()
    for one, other in zip(
        total_and_gradients(Trades(0), z, z_adv, y), total_and_gradients(Plain(), z, z_adv, y), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_mart_s_doubt_and_divergence_both_carry_a_gradient_to_the_clean_side():
    z, z_adv, y = drawn()
    _, clean, adv = total_and_gradients(Mart(5.0), z, z_adv, y)
    p, q, own = probabilities(z, z_adv, y)
    ratio = (p / q).log()
    divergence, p_y = (p * ratio).sum(1, keepdim=True), (p * own).sum(1, keepdim=True)
    torch.testing.assert_close(clean, 5 * (p * (ratio - divergence) * (1 - p_y) - divergence * p_y * (own - p)))
    others = q.masked_fill(own.bool(), -1)
    rival = torch.nn.functional.one_hot(others.argmax(1), 4)
    q_rival = (q * rival).sum(1, keepdim=True)
    boost = q_rival / (1 - q_rival) * (rival - q)  # of -log(1 - q_rival)
    torch.testing.assert_close(adv, q - own + boost + 5 * (q - p) * (1 - p_y))


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_agree_with_finite_differences(name):
    z, z_adv, y = drawn()
    z.requires_grad_()
    z_adv.requires_grad_()

    def terms(z, z_adv):
        found = LOSSES[name]()(identity, *pair(z, z_adv, y))
        return found.fixed + found.robust

    assert torch.autograd.gradcheck(terms, (z, z_adv))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", LOSSES)
def test_saturated_logits_stay_finite_and_so_do_gradients(name, dtype):
    extreme = torch.tensor([-1e4, 0.0, 1e4], dtype=dtype)
    rows = torch.cartesian_prod(extreme, extreme, extreme)  # all 27 rows, against all 27
    z, z_adv = rows.repeat_interleave(27, 0), rows.repeat(27, 1)
    for own in range(3):
        values = total_and_gradients(LOSSES[name](), z, z_adv, torch.full((729,), own))
        assert all(value.isfinite().all() for value in values)
        # MART bounds its logarithm by one machine epsilon, which can take it that far below zero.
        assert (values[0] >= -2 * torch.finfo(dtype).eps).all()


@settings(deadline=None)
@given(logits())
def test_the_divergence_is_one(sample):
    z, z_adv = (torch.tensor(rows, **FLOAT64) for rows in sample[:2])
    assert (kl(z, z_adv) >= -1e-13).all()
    assert kl(z, z).abs().max() <= 1e-13
    assert kl(z, z + 7).abs().max() <= 1e-13
    # Pinsker: KL >= 2 TV^2
    distance = (z.softmax(1) - z_adv.softmax(1)).abs().sum(1) / 2
    assert (kl(z, z_adv) >= 2 * distance**2 - 1e-13).all()


@pytest.mark.parametrize("name", LOSSES)
def test_terms_are_per_sample(name):
    z, z_adv, y = drawn()
    whole = LOSSES[name]()(identity, *pair(z, z_adv, y))
    for i in range(len(y)):
        alone = LOSSES[name]()(identity, *pair(z[i : i + 1], z_adv[i : i + 1], y[i : i + 1]))
        torch.testing.assert_close(alone.fixed[0], whole.fixed[i], rtol=0, atol=1e-14)
        torch.testing.assert_close(alone.robust[0], whole.robust[i], rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", LOSSES)
def test_spared_samples_keep_their_plain_cross_entropy(name):
    z, z_adv, y = drawn()
    attacked = torch.tensor([True, False, True, False, False, True])
    z_adv[~attacked] = z[~attacked]  # the attack returned x itself
    batch, found = pair(z, z_adv, y)
    whole = LOSSES[name]()(identity, batch, found)
    terms = LOSSES[name]()(identity, batch, found._replace(attacked=attacked))
    plain = torch.tensor([-log_p(row)[own] for row, own in zip(z.tolist(), y.tolist(), strict=True)], **FLOAT64)
    torch.testing.assert_close(terms.fixed[~attacked], plain[~attacked])
    assert not terms.robust[~attacked].any()
    assert torch.equal(terms.fixed[attacked], whole.fixed[attacked])
    assert torch.equal(terms.robust[attacked], whole.robust[attacked])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("everyone", [True, False])
def test_sparing_nobody_and_sparing_everybody(name, everyone):
    z, z_adv, y = drawn()
    z_adv = z_adv if everyone else z
    batch, found = pair(z, z_adv, y)
    terms = LOSSES[name]()(identity, batch, found._replace(attacked=torch.full((6,), everyone)))
    expected = LOSSES[name if everyone else "plain"]()(identity, batch, found)
    torch.testing.assert_close(terms.fixed, expected.fixed)
    torch.testing.assert_close(terms.robust, expected.robust)


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda v: Trades(v), "inv_lambda"),
        (lambda v: Mart(v), "strength"),
    ],
)
@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf, True, "6", None], ids=repr)
def test_bad_strengths_are_refused(make, setting, value):
    with pytest.raises(ValueError, match="it takes a finite number >= 0") as error:
        make(value)
    assert f"{setting} = {value!r} " in str(error.value)


@pytest.mark.parametrize(("dtype", "gap"), [(torch.float32, 20.0), (torch.bfloat16, 10.0), (torch.float32, 1e4)])
def test_mart_keeps_its_digits_when_the_rival_is_sure(dtype, gap):
    """Two classes, y at logit 0 and its rival at `gap`: both halves of the boosted CE are log(1 + e^gap), about gap."""
    x = torch.zeros(1, 1, dtype=dtype)
    batch = Batch(x, torch.tensor([0]), torch.tensor([0]))
    logits = torch.tensor([[0.0, gap]], dtype=dtype, requires_grad=True)
    terms = LOSSES["mart"](strength=0.0)(lambda x: logits, batch, Adversarial(x, torch.tensor([0]), 1))
    assert terms.robust.item() == pytest.approx(2 * gap, rel=1e-2 if dtype is torch.bfloat16 else 1e-6)
    terms.robust.sum().backward()
    assert logits.grad.isfinite().all()
