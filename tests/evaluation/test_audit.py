"""The audit passes an honest classifier, and catches each planted defect with the check that is for it."""

import evaluation_kit as kit
import pytest
import torch
from evaluation_kit import Wrapped
from torch import nn

from bilaw import evaluate
from bilaw.attacks import PGD
from bilaw.evaluation import attack_checks, suites
from bilaw.evaluation.result import describe
from bilaw.types import Adversarial

N = 100
CHECKS = [
    "mode",
    "determinism",
    "company",
    "brightness",
    "inputs",
    "outputs",
    "gradients",
    "one step",
    "effort",
    "losses",
    "no bound",
    "budget curve",
    "black box",
    "gap",
    "strays",
]


@pytest.fixture(autouse=True)
def fewer_queries(monkeypatch):
    monkeypatch.setattr(attack_checks, "QUERIES", 150)


def audited(model, attacks=("pgd-20", "fgsm"), x=None, eps=kit.EPS, n=N, **more):
    images = kit.digits(n)
    x = images.x if x is None else x
    found = evaluate(model, x, images.y, eps=eps, attacks=attacks, audit=n, batch=n, **more)
    return found, {finding.check: finding for finding in found.audit}


def must_spoil(found, check, *names):
    """The check failed, and the numbers of `names`, no others, are called unreliable wherever they are shown."""
    finding = next(finding for finding in found.audit if finding.check == check)
    assert finding.verdict == "fail", finding
    failed = [finding for finding in found.audit if finding.verdict == "fail"]
    everywhere = any(not finding.concerns for finding in failed)
    concerned = set(found.scores) if everywhere else {name for finding in failed for name in finding.concerns}
    assert set(names) <= concerned
    assert found.reliable is False
    lines = describe(found.result)
    for name, score in found.scores.items():
        assert score.reliable is (name not in concerned)
        row = next(line for line in lines if line.startswith(f"{name} "))
        assert row.endswith("UNRELIABLE") is (name in concerned)
    assert f"  FAIL {check}: {finding.meaning}" in lines
    return finding


ALL = ("clean", "pgd-20", "fgsm")
ATTACKED = ALL[1:]


def test_an_honest_classifier_passes_every_check(honest, monkeypatch):
    monkeypatch.setattr(attack_checks, "QUERIES", 500)  # as many as users get
    found, by_name = audited(honest)
    assert list(by_name) == CHECKS
    assert {finding.verdict for finding in found.audit} == {"pass"}
    assert found.reliable
    assert all(score.reliable for score in found.scores.values())
    assert describe(found.result)[-1] == "audit: 15 of 15 checks passed"


def test_an_honest_classifier_passes_with_autoattack(honest, cheap):
    found, by_name = audited(honest, attacks=("pgd-20", "autoattack"))
    assert found.reliable
    assert by_name["gap"].figure == pytest.approx(found.scores["pgd-20"].accuracy - found.scores["autoattack"].accuracy)
    assert "autoattack is " in by_name["gap"].meaning
    assert by_name["gap"].meaning.endswith(" below pgd-20")


def test_an_honest_classifier_in_the_euclidean_ball_passes(honest):
    images = kit.digits(N)
    found = evaluate(honest, *images, eps=0.3, norm="l2", attacks=["pgd-20"], audit=N)
    assert {finding.verdict for finding in found.audit} == {"pass"}


def test_without_an_audit_no_number_is_vouched_for(honest):
    found = evaluate(honest, *kit.digits(N), eps=kit.EPS, attacks=["fgsm"], audit=0)
    assert found.reliable is None
    assert found.audit == []
    assert {score.reliable for score in found.scores.values()} == {None}
    lines = describe(found.result)
    assert all(line.endswith("not audited") for line in lines[:2])
    assert "nothing vouches for these numbers" in lines[-1]


def test_softmax_outputs_are_caught(honest):
    found, _ = audited(Wrapped(honest, after=lambda z: z.softmax(1)).eval())
    assert "attack the logits" in must_spoil(found, "outputs", *ALL).meaning


def test_a_model_that_expects_pixels_up_to_255_is_caught(honest):
    found, _ = audited(Wrapped(honest, before=lambda x: x / 255).eval())
    assert "pixels in 0..255" in must_spoil(found, "inputs", *ALL).meaning


def test_a_model_that_expects_normalised_images_is_caught(honest):
    # Every pixel of [0, 1] is bright to this one; normalised, the dark ones lie well below 0.
    found, _ = audited(Wrapped(honest, before=lambda x: torch.sigmoid(20 * (x + 0.3))).eval())
    assert "normalised images" in must_spoil(found, "inputs", *ALL).meaning


def test_images_up_to_255_are_refused_at_the_door(honest):
    with pytest.raises(ValueError, match=r"values in \[0, 255\].*divide bytes by 255"):
        audited(honest, x=kit.digits(N).x * 255)


def test_images_divided_by_255_twice_are_noticed(honest):
    found, by_name = audited(honest, x=kit.digits(N).x / 255)
    assert by_name["brightness"].verdict == "warn"
    assert any(line.startswith("  WARN brightness: no pixel is bright") for line in describe(found.result))


@pytest.fixture
def normalised(honest):
    """The honest classifier behind a BatchNorm whose statistics are not those of any batch."""
    norm = nn.BatchNorm2d(1)
    norm.running_mean.fill_(0.0)
    return nn.Sequential(norm, Wrapped(honest)).eval()


def test_a_module_left_in_train_mode_is_judged_in_eval_mode_and_a_warning_says_so(normalised):
    expected, _ = audited(normalised)
    found, by_name = audited(normalised.train())
    assert by_name["mode"].verdict == "warn"
    assert any(line.startswith("  WARN mode: the model came in train mode") for line in describe(found.result))
    assert found.reliable
    assert normalised.training
    for name, score in expected.scores.items():
        assert found.scores[name] == score


def test_a_function_around_a_module_in_train_mode_is_caught(normalised):
    normalised.train()
    found, by_name = audited(lambda x: normalised(x))
    assert "BatchNorm in train mode" in must_spoil(found, "company", *ALL).meaning
    assert by_name["determinism"].verdict == "pass"


def test_a_random_forward_is_caught(honest):
    found, _ = audited(Wrapped(honest, before=lambda x: x + 0.1 * torch.randn_like(x)).eval())
    assert "other logits each time" in must_spoil(found, "determinism", *ALL).meaning


def test_a_layer_that_shatters_gradients_by_rounding_is_caught(honest):
    found, _ = audited(Wrapped(honest, before=lambda x: (x * 8).round() / 8).eval())
    assert "lets no gradient through" in must_spoil(found, "gradients", *ALL).meaning


def test_a_rounding_layer_that_hides_behind_a_useless_gradient_is_caught(honest, monkeypatch):
    monkeypatch.setattr(attack_checks, "QUERIES", 500)

    def rounded(x):
        return (x * 8).round() / 8 + 1e-3 * torch.sin(1e3 * x)

    found, by_name = audited(Wrapped(honest, before=rounded).eval(), n=200)
    assert by_name["gradients"].verdict == "pass"
    assert not found.reliable
    failed = {finding.check for finding in found.audit if finding.verdict == "fail"}
    assert failed & {"one step", "effort", "no bound", "black box"}
    assert found.scores["clean"].reliable
    assert not found.scores["pgd-20"].reliable


def test_saturated_logits_are_caught(honest):
    found, _ = audited(Wrapped(honest, after=lambda z: 1000 * z).eval())
    assert "the logits saturate the softmax" in must_spoil(found, "gradients", *ALL).meaning


def test_zero_gradients_are_caught(honest):
    found, _ = audited(Wrapped(honest, before=lambda x: x.detach() + 0 * x).eval())
    finding = must_spoil(found, "gradients", *ALL)
    assert finding.figure == 1.0
    assert "lets no gradient through" in finding.meaning


def test_gradients_that_are_no_numbers_are_caught(honest):
    # The derivative of sqrt at 0 is infinite, and 0 * inf is no number.
    found, _ = audited(Wrapped(honest, before=lambda x: x + 0 * (x - x.detach()).sqrt()).eval())
    assert must_spoil(found, "gradients", *ALL).figure == 1.0


def useless_gradient(honest):
    """The honest classifier, with a gradient that is the same for every pixel."""
    return Wrapped(honest, before=lambda x: x.detach() + 1e-3 * (x - x.detach()).mean()).eval()


def test_a_gradient_of_no_use_is_caught(honest):
    found, by_name = audited(useless_gradient(honest), eps=0.2)
    assert by_name["gradients"].verdict == "pass"
    must_spoil(found, "black box", *ATTACKED)


def test_logits_without_any_gradient_are_refused_unless_no_attack_needs_one(honest, cheap):
    blind = Wrapped(honest, after=lambda z: z.detach()).eval()
    with pytest.raises(ValueError, match=r"without gradients.*only clean and square need none"):
        audited(blind)
    found = evaluate(blind, *kit.digits(20), eps=kit.EPS, attacks=["square"], audit=0)
    assert list(found.scores) == ["clean", "square"]


def test_a_classifier_without_a_gradient_gets_an_audit_of_its_square_attack(honest, cheap):
    found = evaluate(
        Wrapped(honest, after=lambda z: z.detach()).eval(), *kit.digits(20), eps=kit.EPS, attacks=["square"], audit=20
    )
    assert found.reliable is False


class Outside:
    """An attack that goes twice as far as it may."""

    def __init__(self, eps, factor=2.0):
        self.eps, self.factor = eps, factor

    def __call__(self, logits_of, batch, generator=None):
        away = torch.where(batch.x > 0.5, -1.0, 1.0) * self.factor * self.eps
        return Adversarial(batch.x + away, torch.zeros_like(batch.y), 0)


class NoNumber(Outside):
    def __call__(self, logits_of, batch, generator=None):
        return Adversarial(torch.full_like(batch.x, torch.nan), torch.zeros_like(batch.y), 0)


def test_points_outside_the_ball_are_brought_back_judged_there_and_the_attack_named(honest, monkeypatch):
    images = kit.digits(N)
    monkeypatch.setitem(suites.SINGLE, "f-fgsm", lambda eps, norm: Outside(eps))
    found, _ = audited(honest, ("f-fgsm", "pgd-20"), points=True)
    finding = must_spoil(found, "strays", "f-fgsm")
    assert finding.concerns == ("f-fgsm",)
    right = int(found.verdicts["clean"].robust.sum())
    assert finding.figure == right
    assert found.scores["pgd-20"].reliable
    held = found.verdicts["f-fgsm"]
    assert (held.points - images.x).abs().max() <= kit.EPS * (1 + 1e-5) + 1e-6
    assert held.points.min() >= 0
    assert held.points.max() <= 1
    bounded = images.x + kit.EPS * torch.where(images.x > 0.5, -1.0, 1.0)
    with torch.no_grad():
        expected = (honest(bounded).argmax(1) == images.y) & (honest(images.x).argmax(1) == images.y)
    assert torch.equal(held.robust, expected)


def test_points_that_are_no_numbers_break_nothing(honest, monkeypatch):
    monkeypatch.setitem(suites.SINGLE, "f-fgsm", lambda eps, norm: NoNumber(eps))
    found, _ = audited(honest, ("f-fgsm",))
    must_spoil(found, "strays", "f-fgsm")
    assert found.scores["f-fgsm"].hits == found.scores["clean"].hits


def test_points_of_another_shape_are_refused(honest, monkeypatch):
    class Fewer(Outside):
        def __call__(self, logits_of, batch, generator=None):
            return Adversarial(batch.x[1:], batch.y[1:], 0)

    monkeypatch.setitem(suites.SINGLE, "f-fgsm", lambda eps, norm: Fewer(eps))
    with pytest.raises(ValueError, match=r"Fewer: points .* a point for every image"):
        audited(honest, ("f-fgsm",))


class Transfer(Outside):
    """What breaks the honest classifier breaks its masked copies."""

    def __init__(self, honest, eps):
        super().__init__(eps)
        self.honest = honest

    def __call__(self, logits_of, batch, generator=None):
        return PGD(self.eps, objective="cw")(self.honest, batch, generator)


def test_a_gain_under_pgd_that_autoattack_takes_away_is_caught(honest, monkeypatch):
    monkeypatch.setattr(suites, "standard", lambda eps, norm: {"apgd-ce": Transfer(honest, eps), "square": Outside(0)})
    found, _ = audited(useless_gradient(honest), ("pgd-20", "autoattack"), eps=0.15)
    finding = must_spoil(found, "gap", "pgd-20")
    assert finding.concerns == ("pgd-20",)
    assert finding.meaning.startswith("autoattack is ")
    assert finding.meaning.endswith(" below pgd-20: the gain under pgd-20 is not robustness")
    assert finding.figure == pytest.approx(found.scores["pgd-20"].accuracy - found.scores["autoattack"].accuracy)
