"""What is refused at the door, and what neither an attack nor a module's precision can change."""

import copy

import evaluation_kit as kit
import pytest
import torch
from evaluation_kit import EPS, Wrapped
from torch import nn

from bilaw import evaluate
from bilaw.config import ComputeConfig
from bilaw.evaluation import suites
from bilaw.types import Adversarial

N = 60


def judged(model, attacks=("fgsm",), audit=0, n=N, **more):
    return evaluate(model, *kit.digits(n), eps=EPS, attacks=attacks, audit=audit, **more)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize(("places", "batch"), [([8], 128), ([20, 33, 59], 16), ([59], 59)])
def test_images_whose_logits_are_no_numbers_are_counted_and_refused_wherever_they_are(
    honest, tmp_path, value, places, batch
):
    odd = kit.digits(N).x[places]

    def brittle(x):
        known = (x[:, None] == odd[None]).flatten(2).all(2).any(1)
        return torch.where(known[:, None], value, honest(x))

    count = f"NaN or infinite for {len(places)} of {N} images"
    with pytest.raises(ValueError, match=rf"model output = '{count}'.*finite logits for the images as they are"):
        judged(brittle, batch=batch, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_random_function_is_refused_a_folder_it_could_not_go_on_in(honest, tmp_path):
    def random(x):
        return honest(x + 0.1 * torch.randn_like(x))

    with pytest.raises(ValueError, match=r"out = .*this function gives other logits each time"):
        judged(random, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    assert judged(random).scores["clean"].n == N
    assert judged(lambda x: honest(x), out=tmp_path / "out").scores["clean"].n == N


def test_a_random_module_is_known_again_by_its_weights(honest, tmp_path):
    random = Wrapped(honest, before=lambda x: x + 0.1 * torch.randn_like(x)).eval()
    first = judged(random, out=tmp_path / "out")
    assert judged(random, out=tmp_path / "out").result == first.result


class Meddling:
    """Turns the images black and gives them other labels, in place."""

    def __init__(self, eps):
        self.eps = eps

    def __call__(self, logits_of, batch, generator=None):
        batch.x.zero_()
        batch.y.add_(1).remainder_(10)
        return Adversarial(batch.x, torch.zeros_like(batch.y), 0)


def test_an_attack_that_changes_its_batch_is_judged_by_the_originals(honest, monkeypatch):
    monkeypatch.setitem(suites.SINGLE, "f-fgsm", lambda eps, norm: Meddling(eps))
    images, before = kit.digits(N), kit.digits(N)
    found = evaluate(honest, *images, eps=EPS, attacks=("f-fgsm", "fgsm"), audit=20, points=True)
    assert torch.equal(images.x, before.x)
    assert torch.equal(images.y, before.y)
    darker = (before.x - EPS).clamp(0, 1)
    with torch.no_grad():
        right = honest(before.x).argmax(1) == before.y
        expected = right & (honest(darker).argmax(1) == before.y)
    held = found.verdicts["f-fgsm"]
    assert torch.equal(held.robust, expected)
    assert expected.sum() > 30
    strays = next(finding for finding in found.audit if finding.check == "strays")
    assert (strays.figure, strays.concerns) == (int(right.sum()), ("f-fgsm",))
    moved = held.loss > found.verdicts["clean"].loss
    torch.testing.assert_close(held.points[moved], darker[moved])
    assert torch.equal(found.verdicts["fgsm"].robust, judged(honest).verdicts["fgsm"].robust)


class Watched(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.seen = inner, set()

    def forward(self, x):
        self.seen.add(x.dtype)
        return self.inner(x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_module_of_another_precision_gets_images_of_its_own(honest, cheap, dtype):
    attacks = ("fgsm", "pgd-3", "autoattack")
    expected = judged(honest, attacks=attacks)
    model = Watched(copy.deepcopy(honest).to(dtype)).eval()
    found = judged(model, attacks=attacks, audit=20)
    assert model.seen == {dtype}
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert len(found.audit) == 15
    for name, verdicts in found.verdicts.items():
        assert verdicts.loss.dtype == torch.float32
        differing = int((verdicts.robust != expected.verdicts[name].robust).sum())
        assert differing <= (0 if dtype == torch.float64 else 3), name


def test_a_module_without_parameters_gets_images_in_single_precision(honest):
    seen = set()

    class Bare(nn.Module):
        def forward(self, x):
            seen.add(x.dtype)
            return honest(x)

    found = judged(Bare().eval())
    assert seen == {torch.float32}
    assert found.scores["fgsm"].hits == judged(honest).scores["fgsm"].hits


def test_attacks_in_bfloat16_are_judged_in_float32_and_are_other_settings(honest, cheap, tmp_path):
    plain = judged(honest, ("pgd-20", "autoattack"))
    half = ComputeConfig(precision="bf16")
    found = judged(honest, ("pgd-20", "autoattack"), points=True, compute=half, out=tmp_path / "out")
    assert (plain.result["settings"]["precision"], found.result["settings"]["precision"]) == ("fp32", "bf16")
    for name in ("pgd-20", "autoattack"):
        points, y = found.verdicts[name].points, kit.digits(N).y
        with torch.no_grad():
            assert torch.equal(honest(points).argmax(1) == y, found.verdicts[name].robust)
        assert abs(found.scores[name].hits - plain.scores[name].hits) <= 2
    with pytest.raises(ValueError, match="precision"):
        judged(honest, ("pgd-20", "autoattack"), points=True, out=tmp_path / "out")
    with pytest.raises(ValueError, match=r"compute\.precision = 'bf16'.*fp32 for a function"):
        judged(lambda x: honest(x), compute=half)
    with pytest.raises(ValueError, match=r"compute\.precision = 'bf16'.*fp32 for a model of torch.float64"):
        judged(copy.deepcopy(honest).double(), compute=half)
