"""Few classes, few samples, nothing to break, nothing right, no numbers: the right answer or a clear refusal."""

import evaluation_kit as kit
import pytest
import torch
from evaluation_kit import EPS, Wrapped
from torch import nn

from bilaw import evaluate
from bilaw.attacks.autoattack import standard
from bilaw.datasets.data import Dataset, Images
from bilaw.evaluation import suites
from bilaw.evaluation.measure import ALREADY, SURVIVED

CONVERGED = ("fgsm", "f-fgsm", "pgd-20", "cw-20", "pgd-20x2", "autoattack", "apgd-t", "fab-t", "square")
ALL = ("fgsm", "f-fgsm", "pgd-3", "cw-3", "kl-3", "pgd-3x2", "autoattack", "apgd-t", "fab-t", "square")


@pytest.fixture(autouse=True)
def quick(cheap):
    pass


def judged(model, x, y, attacks=ALL, audit=20, eps=EPS, **more):
    return evaluate(model, x, y, eps=eps, attacks=attacks, audit=audit, **more)


def linear(k, d=4, seed=0):
    """k classes that no linear classifier errs on, with labels to match."""
    drawn = torch.Generator().manual_seed(seed)
    layer = nn.Sequential(nn.Flatten(), nn.Linear(d, k)).eval()
    with torch.no_grad():
        layer[1].weight.copy_(torch.randn(k, d, generator=drawn))
        layer[1].bias.copy_(-layer[1].weight.sum(1) / 2)
    x = torch.rand(60, 1, 2, d // 2, generator=drawn)
    with torch.no_grad():
        y = layer(x).argmax(1)
    assert len(y.unique()) == k
    return layer, x, y


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("k", [2, 3])
def test_few_classes_do(k, norm, monkeypatch):
    monkeypatch.setattr(suites, "standard", lambda eps, norm: dict(list(standard(eps, norm).items())[:3]))
    layer, x, y = linear(k)
    found = judged(layer, x, y, attacks=("pgd-20", "autoattack"), norm=norm, audit=0)
    assert found.scores["clean"].accuracy == 1
    w, z = layer[1].weight.detach(), layer(x).detach()
    gap = (z.gather(1, y[:, None]) - z).scatter(1, y[:, None], torch.inf)
    size = (w[y][:, None] - w).norm(p=1 if norm == "linf" else 2, dim=2)
    safe = (gap / size.scatter(1, y[:, None], 1)).min(1).values > EPS * (1 + 1e-4)  # where [0, 1] is no bound
    for name in ("pgd-20", "autoattack"):
        robust = found.verdicts[name].robust
        assert robust[safe].all()
        assert not robust.all()


def test_two_classes_pass_every_attack_and_the_audit():
    found = judged(*linear(2), attacks=CONVERGED)
    assert list(found.scores) == ["clean", *CONVERGED]
    assert found.scores["clean"].accuracy == 1
    assert {finding.verdict for finding in found.audit} == {"pass"}


def test_of_two_classes_the_kl_knows_no_right_direction_and_its_number_alone_is_marked():
    found = judged(*linear(2), attacks=(*CONVERGED, "kl-20"))
    (failed,) = [finding for finding in found.audit if finding.verdict == "fail"]
    assert (failed.check, failed.concerns) == ("gap", ("kl-20",))
    assert [name for name, score in found.scores.items() if not score.reliable] == ["kl-20"]


def test_a_single_sample_is_judged_as_the_network_itself_says(honest):
    images = kit.digits(60)
    with torch.no_grad():
        right = honest(images.x).argmax(1) == images.y
    x = images.x.clone().requires_grad_()
    nn.functional.cross_entropy(honest(x), images.y, reduction="sum").backward()
    with torch.no_grad():
        bounded = (images.x + EPS * x.grad.sign()).clamp(0, 1)
        robust = right & (honest(bounded).argmax(1) == images.y)
    kinds = {"wrong": ~right, "broken": right & ~robust, "robust": robust}
    for kind, which in kinds.items():
        (at, *_) = which.nonzero()[:, 0].tolist()
        found = judged(honest, images.x[at : at + 1], images.y[at : at + 1])
        assert {score.n for score in found.scores.values()} == {1}
        assert found.scores["clean"].accuracy == (kind != "wrong")
        assert found.scores["fgsm"].accuracy == (kind == "robust")
        assert len(found.audit) == 15


def test_classes_that_no_sample_has_are_no_reason_to_refuse(honest):
    images = kit.digits(60)
    kept = images.y != 3
    found = judged(honest, images.x[kept], images.y[kept], attacks=("fgsm",), audit=0)
    assert found.result["data"]["classes"] == 10
    whole = judged(honest, *images, attacks=("fgsm",), audit=0)
    assert torch.equal(found.verdicts["fgsm"].robust, whole.verdicts["fgsm"].robust[kept])


def test_a_single_sample_of_a_data_set(honest):
    found = evaluate(honest, "digits", eps=EPS, attacks=ALL, samples=1, audit=1)
    assert {score.n for score in found.scores.values()} == {1}


def test_a_batch_of_one(honest):
    found = judged(honest, *kit.digits(20), attacks=("fgsm", "autoattack"), batch=1, audit=4)
    assert found.scores["autoattack"].hits <= found.scores["clean"].hits


@pytest.mark.parametrize("batch", [0, -1, 2.5])
def test_a_batch_of_no_size_is_refused(honest, batch):
    with pytest.raises(ValueError, match=f"batch = {batch}"):
        judged(honest, *kit.digits(20), attacks=(), batch=batch)


def test_all_wrong_as_they_are(honest):
    images = kit.digits(40)
    wrong = Wrapped(honest, after=lambda z: -z).eval()
    with torch.no_grad():
        assert not (wrong(images.x).argmax(1) == images.y).any()
    model = Wrapped(wrong)
    found = judged(model.eval(), *images, points=True, audit=0)
    for name, score in found.scores.items():
        assert (score.hits, score.accuracy, score.low) == (0, 0.0, 0.0)
        assert score.broken_by["already"] == 40
        assert set(found.verdicts[name].by.tolist()) == {ALREADY}
        if name != "clean":
            assert torch.equal(found.verdicts[name].points, images.x)
    assert model.counted == 8 + 40 + 8 + 40  # the door's two, the digest's and one look: nothing is left to attack
    assert judged(wrong, *images).result["audit"]


def test_none_is_broken_in_a_ball_of_one_point(honest):
    found = judged(honest, *kit.digits(40), eps=0, points=True)
    clean = found.verdicts["clean"].robust
    for name in ALL:
        assert torch.equal(found.verdicts[name].robust, clean)
        assert set(found.verdicts[name].by.tolist()) == {ALREADY, SURVIVED}
        assert torch.allclose(found.verdicts[name].points, kit.digits(40).x, atol=1e-6)


def test_a_constant_classifier_is_right_where_it_is_and_nothing_breaks_it():
    images = kit.digits(20)
    found = judged(lambda x: nn.functional.one_hot(images.y[:1], 10) + 0 * x.flatten(1).sum(1, keepdim=True), *images)
    assert found.scores["autoattack"].hits == found.scores["clean"].hits == int((images.y == images.y[0]).sum())
    assert found.reliable is False


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_logits_that_are_no_numbers_are_refused(honest, value):
    with pytest.raises(ValueError, match=r"model output = 'NaN or infinite'.*finite logits"):
        judged(Wrapped(honest, after=lambda z: z + value).eval(), *kit.digits(20))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_point_whose_logits_are_no_numbers_counts_as_broken(honest, value):
    images = kit.digits(40)

    class Brittle(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = honest

        def forward(self, x):
            known = (x[:, None] == images.x[None]).flatten(2).all(2).any(1)
            return torch.where(known[:, None], self.inner(x), value)

    found = judged(Brittle().eval(), *images, attacks=("fgsm", "pgd-3", "autoattack"), audit=10)
    moved = found.verdicts["clean"].robust
    for name in ("fgsm", "pgd-3"):
        assert not found.verdicts[name].robust[moved].any()
    assert found.scores["clean"].hits == int(moved.sum()) > 30
    assert found.scores["autoattack"].hits == 0


def test_labels_that_no_logit_belongs_to_are_refused_before_any_work(honest, tmp_path):
    images = kit.digits(60)
    for places in (slice(0, 1), slice(50, 51)):  # among the first few, and later
        y = images.y.clone()
        y[places] = 10
        with pytest.raises(ValueError, match="10"):
            judged(honest, images.x, y, attacks=("fgsm",), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    y[places] = -1
    with pytest.raises(ValueError, match="-1"):
        judged(honest, images.x, y, attacks=("fgsm",))


def test_too_few_logits_for_the_classes_of_a_data_set_are_refused(honest):
    nine = Wrapped(honest, after=lambda z: z[:, :9]).eval()
    with pytest.raises(ValueError, match=r"9 logits an image.*10, one for each class"):
        evaluate(nine, "digits", eps=EPS)
    images = kit.digits(20)
    few = images.y < 9
    data = Dataset("mine", images, Images(images.x[few], images.y[few]), tuple("0123456789"), False)
    with pytest.raises(ValueError, match=r"9 logits an image.*10, one for each class"):
        evaluate(nine, data, eps=EPS)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"attacks": ["autoatack"]}, r"attacks = 'autoatack'.*did you mean 'autoattack'\?"),
        ({"attacks": ["pgd"]}, r"attacks = 'pgd'.*pgd-20"),
        ({"attacks": ["pgd-0"]}, "steps = 0"),
        ({"attacks": ["fgsm", "fgsm"]}, "each name once"),
        ({"attacks": ["clean", "clean"]}, "each name once"),
        ({"attacks": [3]}, "a tuple of names"),
        ({"attacks": ["weight-aware-5"]}, "attacks = 'weight-aware'.*weight-aware-20:RUN"),
        ({"attacks": ["weight-aware-5:nowhere"]}, "scheme.network = 'nowhere'.*a file that exists"),
        ({"eps": -0.1}, "eps = -0.1"),
        ({"eps": float("nan")}, "eps = nan"),
        ({"eps": "8/255"}, "eps = '8/255'"),
        ({"norm": "l1"}, "norm = 'l1'.*one of l2, linf"),
        ({"samples": 0}, "samples = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"audit": -1}, "audit = -1"),
        ({"points": 1}, "points = 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_written(honest, tmp_path, settings, told):
    with pytest.raises(ValueError, match=told):
        judged(honest, *kit.digits(20), **{"out": tmp_path / "out", "attacks": ("fgsm",), **settings})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("fc1", "a torch.nn.Module or a function"),
        (lambda x: x, r"model output.*logits of shape \(8, classes\)"),
        (lambda x: {}["no such key"], "KeyError: 'no such key'"),
        (nn.Conv2d(3, 10, 8), r"maps images \(8, 1, 8, 8\) to logits"),
    ],
)
def test_what_is_no_classifier_is_refused(model, told):
    with pytest.raises(ValueError, match=told):
        judged(model, *kit.digits(20), attacks=("fgsm",))
