"""Which numbers a poor loss and a weak PGD spoil, and which they do not; outputs that hide a gradient."""

import evaluation_kit as kit
import pytest
import torch
from evaluation_kit import Wrapped

from bilaw import evaluate
from bilaw.attacks import PGD
from bilaw.evaluation import attack_checks, suites

N = 100


@pytest.fixture(autouse=True)
def fewer_queries(monkeypatch):
    monkeypatch.setattr(attack_checks, "QUERIES", 150)


def audited(model, attacks, eps=kit.EPS, **more):
    found = evaluate(model.eval(), *kit.digits(N), eps=eps, attacks=attacks, audit=N, batch=N, **more)
    return found, {finding.check: finding for finding in found.audit}


@pytest.mark.parametrize("squash", [torch.sigmoid, lambda z: torch.sigmoid(z / 4), lambda z: z.clamp(-2, 2) / 4 + 0.5])
def test_squashed_outputs_are_caught(honest, squash):
    found, by_name = audited(Wrapped(honest, after=squash), ("pgd-5",))
    assert by_name["outputs"].verdict == "fail"
    assert "a squashed output hides their gradient" in by_name["outputs"].meaning
    assert by_name["outputs"].concerns == ()
    assert not any(score.reliable for score in found.scores.values())


def test_logits_that_happen_to_lie_in_the_unit_interval_for_the_images_are_no_squashed_ones(honest):
    images = kit.digits(N)
    with torch.no_grad():
        z = honest(images.x)
    low, high = z.min(), z.max()
    _, by_name = audited(Wrapped(honest, after=lambda z: (z - low) / (high - low)), ("pgd-5",))
    assert by_name["outputs"].verdict == "pass"


def test_a_cross_entropy_that_is_a_poor_guide_spoils_the_numbers_that_rest_on_it_and_no_others(honest, cheap):
    attacks = ("pgd-20", "cw-20", "fgsm", "f-fgsm", "weight-aware-3", "apgd-t", "square")
    found, by_name = audited(Wrapped(honest, after=lambda z: torch.sigmoid(z) - 0.5), attacks, omega=kit.omega())
    finding = by_name["losses"]
    assert finding.verdict == "fail"
    gap = found.scores["pgd-20"].accuracy - found.scores["cw-20"].accuracy
    assert gap > 0.1
    assert finding.figure == pytest.approx(gap, abs=0.03)
    assert f"PGD-20 on the margin is {finding.figure:.1%} stronger" in finding.meaning
    promising = {"pgd-20", "fgsm", "f-fgsm", "weight-aware-3"}
    assert set(finding.concerns) == promising
    failed = [finding.check for finding in found.audit if finding.verdict == "fail" and finding.check != "gap"]
    assert failed == ["losses"]
    assert {name for name, score in found.scores.items() if not score.reliable} == promising


class Transferred:
    """What breaks the honest classifier breaks its masked copies."""

    def __init__(self, honest, eps):
        self.honest, self.eps = honest, eps

    def __call__(self, logits_of, batch, generator=None):
        return PGD(self.eps, objective="cw")(self.honest, batch, generator)


def masked(honest):
    """The honest classifier, with a gradient that is the same for every pixel."""
    return Wrapped(honest, before=lambda x: x.detach() + 1e-3 * (x - x.detach()).mean())


def test_any_attack_may_show_that_pgd_promises_too_much(honest, monkeypatch):
    monkeypatch.setitem(suites.SINGLE, "square", lambda eps, norm: Transferred(honest, eps))
    found, by_name = audited(masked(honest), ("pgd-20", "square"), eps=0.15)
    gap = by_name["gap"]
    figure = found.scores["pgd-20"].accuracy - found.scores["square"].accuracy
    assert (gap.figure, gap.meaning.split(" is ")[0]) == (pytest.approx(figure), "square")
    assert (gap.verdict, gap.concerns) == ("fail", ("pgd-20",))
    assert f"square is {figure:.1%} below pgd-20: the gain under pgd-20 is not robustness" == gap.meaning


@pytest.mark.parametrize(("others", "blamed"), [((), ()), (("pgd-20",), ("pgd-20",))])
def test_a_single_step_is_never_blamed_for_being_weaker(honest, monkeypatch, others, blamed):
    parts = {"apgd-ce": Transferred(honest, 0.15), "square": Transferred(honest, 0.15)}
    monkeypatch.setattr(suites, "standard", lambda eps, norm: parts)
    found, by_name = audited(masked(honest), ("fgsm", "f-fgsm", "autoattack", *others), eps=0.15)
    for name in ("fgsm", "f-fgsm"):
        assert found.scores[name].accuracy - found.scores["autoattack"].accuracy > 0.15
    assert by_name["gap"].verdict == ("fail" if blamed else "pass")
    assert by_name["gap"].concerns == blamed
