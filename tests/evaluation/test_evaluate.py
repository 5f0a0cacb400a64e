"""`bilaw.evaluate`: what it takes, what it gives back, and what it leaves as it was."""

import json

import evaluation_kit as kit
import numpy as np
import pytest
import torch
from evaluation_kit import EPS, Wrapped
from torch import nn

from bilaw import evaluate
from bilaw.config import ComputeConfig
from bilaw.datasets.data import Dataset, Images, Lazy
from bilaw.datasets.table import load
from bilaw.evaluation.measure import ALREADY, SURVIVED, Watch, fixed_index
from bilaw.evaluation.plan import Plan
from bilaw.models import build

SOME = ("pgd-3", "autoattack", "cw-3", "square")


@pytest.fixture(autouse=True)
def quick(cheap):
    pass


def judged(model, *data, attacks=("fgsm",), audit=0, eps=EPS, **more):
    return evaluate(model, *data, eps=eps, attacks=attacks, audit=audit, **more)


def test_arrays_bytes_data_sets_functions_and_modules_are_judged_alike(honest):
    images = kit.digits()
    expected = judged(honest, *images).verdicts
    as_bytes = (images.x * 255).round().to(torch.uint8)
    data = Dataset("digits of mine", Images(as_bytes, images.y), Images(as_bytes, images.y), tuple("0123456789"), False)
    lazy = data._replace(test=Lazy(lambda index: as_bytes[index], images.y, (1, 8, 8)))
    for found in (
        judged(honest, images.x.numpy(), images.y.numpy()),
        judged(honest, as_bytes[:, 0].numpy(), images.y.tolist()),
        judged(lambda x: honest(x), *images),
        judged(honest, data),
        judged(honest, lazy),
        judged(honest, (images.x, images.y)),
        judged(honest, torch.utils.data.TensorDataset(*images)),
    ):
        for name, verdicts in expected.items():
            assert torch.equal(found.verdicts[name].robust, verdicts.robust)
            assert torch.allclose(found.verdicts[name].loss, verdicts.loss)


def test_the_test_half_is_judged_where_there_is_one(honest):
    digits = load("digits")
    found = judged(honest, "digits", attacks=())
    assert (found.result["data"]["half"], found.result["data"]["samples"]) == ("test", 450)
    assert torch.equal(found.verdicts["clean"].robust, judged(honest, digits, attacks=()).verdicts["clean"].robust)
    half = judged(honest, digits._replace(test=None), attacks=()).result["data"]
    assert (half["half"], half["samples"], half["of"]) == ("all", 1000, 1347)


def test_a_module_is_left_as_it_was():
    module = nn.Sequential(nn.BatchNorm2d(1), build("fc1", (1, 8, 8), 10, seed=0), nn.Dropout(0.2))
    module.train()
    module[2].eval()
    module[1].requires_grad_(False)
    for parameter in module[0].parameters():
        parameter.grad = torch.ones_like(parameter)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    state = torch.get_rng_state()
    judged(module, *kit.digits(20), attacks=SOME, audit=20, compute=ComputeConfig(threads=1))
    assert (module.training, module[0].training, module[2].training) == (True, True, False)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(torch.equal(parameter.grad, torch.ones_like(parameter)) for parameter in module[0].parameters())
    assert all(not p.requires_grad and p.grad is None for p in module[1].parameters())
    assert {p.device.type for p in module.parameters()} == {"cpu"}
    assert torch.equal(torch.get_rng_state(), state)


def test_gradients_are_taken_even_where_the_caller_has_them_off(honest):
    images = kit.digits(20)
    with torch.no_grad():
        found = judged(honest, *images)
    assert torch.equal(found.verdicts["fgsm"].loss, judged(honest, *images).verdicts["fgsm"].loss)


@pytest.fixture(scope="module")
def full(honest):
    with pytest.MonkeyPatch.context() as patch:
        kit.make_cheap(patch.setattr)
        return judged(honest, *kit.digits(100), attacks=SOME, points=True, batch=32)


def test_a_robust_sample_is_a_correct_one_and_the_counts_add_up(full):
    clean = full.verdicts["clean"].robust
    for name, verdicts in full.verdicts.items():
        score = full.scores[name]
        assert not (verdicts.robust & ~clean).any()
        assert score.hits == int(verdicts.robust.sum())
        assert (score.n, score.accuracy) == (100, score.hits / 100)
        assert sum(score.broken_by.values()) + score.hits == score.n
        assert score.low <= score.accuracy <= score.high
        assert score.reliable is None
        assert torch.equal(verdicts.by == ALREADY, ~clean)
        assert torch.equal(verdicts.by == SURVIVED, verdicts.robust)
        assert (verdicts.loss >= full.verdicts["clean"].loss).all() or name == "clean"
    parts = ("apgd-ce", "apgd-t", "fab-t", "square")
    by = full.verdicts["autoattack"].by
    counts = {"already": int((~clean).sum()), **{part: int((by == place).sum()) for place, part in enumerate(parts)}}
    assert full.scores["autoattack"].broken_by == counts
    assert full.scores["clean"].broken_by == {"already": counts["already"]}
    assert 0 < full.scores["autoattack"].hits < full.scores["clean"].hits < 100


def test_the_points_kept_are_allowed_and_tell_the_verdict(full, honest):
    images = kit.digits(100)
    right = full.verdicts["clean"].robust
    assert full.verdicts["clean"].points is None
    for name in SOME:
        verdicts = full.verdicts[name]
        assert (verdicts.points - images.x).abs().max() <= EPS + 1e-6
        assert verdicts.points.min() >= 0
        assert verdicts.points.max() <= 1
        with torch.no_grad():
            logits = honest(verdicts.points)
        wrong = logits.argmax(1) != images.y
        assert torch.equal(wrong[right], ~verdicts.robust[right])
        loss = nn.functional.cross_entropy(logits, images.y, reduction="none")
        assert torch.allclose(loss, verdicts.loss, atol=1e-5)


def test_points_lie_in_the_euclidean_ball_too(honest):
    images = kit.digits(40)
    found = judged(honest, *images, norm="l2", eps=0.5, attacks=SOME, points=True)
    for name in SOME:
        assert (found.verdicts[name].points - images.x).flatten(1).norm(dim=1).max() <= 0.5 * (1 + 1e-5) + 1e-6
        assert found.scores[name].hits < found.scores["clean"].hits


def test_keeping_points_changes_no_verdict(honest):
    drawn = torch.Generator().manual_seed(0)
    images = kit.digits(40)
    x = (0.9 * images.x + 0.1 * torch.rand(images.x.shape, generator=drawn)).clamp(0, 1)  # no bytes
    kept, dropped = (judged(honest, x, images.y, attacks=SOME, audit=20, points=points) for points in (True, False))
    for name, verdicts in dropped.verdicts.items():
        assert torch.equal(kept.verdicts[name].robust, verdicts.robust), name
        assert torch.equal(kept.verdicts[name].loss, verdicts.loss)
    assert kept.audit == dropped.audit
    for name in SOME:
        assert (kept.verdicts[name].points - x).abs().max() <= EPS + 1e-6


def test_batches_do_not_change_which_samples_an_attack_without_chance_breaks(honest):
    one = judged(honest, *kit.digits(50), batch=50).verdicts["fgsm"]
    single = judged(honest, *kit.digits(50), batch=1).verdicts["fgsm"]
    assert torch.equal(one.robust, single.robust)
    assert torch.equal(one.by, single.by)


def test_known_data_give_their_first_samples_and_own_data_a_fixed_draw():
    assert torch.equal(fixed_index(10_000, Plan(0.1), True), torch.arange(1000))
    own = fixed_index(10_000, Plan(0.1), False)
    assert torch.equal(own, fixed_index(10_000, Plan(0.1, seed=7), False))
    assert len(own) == len(own.unique()) == 1000
    assert torch.equal(own, own.sort().values)
    assert torch.histc(own.float(), 10, 0, 10_000).min() > 60  # from everywhere, as the test set may be sorted
    for known in (True, False):
        assert torch.equal(fixed_index(30, Plan(0.1, samples=None), known), torch.arange(30))
        assert torch.equal(fixed_index(30, Plan(0.1), known), torch.arange(30))


def test_the_places_of_the_samples_are_told(honest):
    found = judged(honest, "digits", attacks=(), samples=7)
    assert found.places.tolist() == list(range(7))
    images = kit.digits(100)
    own = judged(honest, *images, attacks=(), samples=30)
    whole = judged(honest, *images, attacks=())
    assert torch.allclose(own.verdicts["clean"].loss, whole.verdicts["clean"].loss[own.places])


@pytest.mark.parametrize(
    ("attacks", "names"),
    [((), ["clean"]), (("fgsm", "clean"), ["clean", "fgsm"]), (["pgd-1", "fgsm"], ["clean", "pgd-1", "fgsm"])],
)
def test_clean_accuracy_always_comes_first(honest, attacks, names):
    found = judged(honest, *kit.digits(20), attacks=attacks)
    assert list(found.scores) == list(found.verdicts) == found.result["settings"]["attacks"] == names


def test_the_watch_hears_of_every_suite_and_of_all_the_work(honest):
    heard, work, notes = [], [], []
    watch = Watch(lambda done, total: work.append((done, total)), lambda *told: heard.append(told), notes.append)
    model = Wrapped(honest, after=lambda z: z.softmax(1)).eval()
    found = judged(model, *kit.digits(50), attacks=SOME, batch=20, audit=20, watch=watch)
    assert heard == [(name, score.accuracy, 50) for name, score in found.scores.items()]
    assert all(done <= total for done, total in work)
    assert [done for done, _ in work] == sorted(done for done, _ in work)
    assert work[-1][0] == work[-1][1]
    assert notes[0].startswith("audit: outputs: the outputs are probabilities")


def test_a_result_is_the_same_twice_and_knows_no_time_and_no_place(honest, tmp_path):
    for name in ("a", "b"):
        judged(honest, *kit.digits(20), attacks=SOME, audit=10, out=tmp_path / name, points=True)
    for file in ("result.json", "verdicts.safetensors", "points.safetensors", "manifest.json", "card.md"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    text = (tmp_path / "a" / "result.json").read_text()
    assert str(tmp_path) not in text
    assert "seconds" not in text
    assert set(json.loads((tmp_path / "a" / "timing.json").read_text())["seconds"]) == {"clean", *SOME}


def test_numpy_labels_of_any_integer_type_do(honest):
    images = kit.digits(20)
    assert judged(honest, images.x, images.y.numpy().astype(np.uint8)).scores["clean"].n == 20
