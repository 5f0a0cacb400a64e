"""Evaluations killed with SIGKILL and gone on with come to the same bytes, and redo nothing that was finished."""

import os
import random
import shutil
import signal

import evaluation_kit as kit
import pytest
import torch
from evaluation_kit import EPS, Wrapped

from bilaw import evaluate
from bilaw.config import ComputeConfig
from bilaw.datasets.data import Dataset, Images
from bilaw.evaluation import measure

KILLED = -signal.SIGKILL
SAME = ("result.json", "verdicts.safetensors", "points.safetensors", "manifest.json", "card.md", "model_info.json")
kills = pytest.mark.skipif(not hasattr(os, "fork"), reason="takes fork and SIGKILL")

TARGETED = [
    ("mkdir", "parts", 1),  # the folder is there, and nothing in it
    ("write", "manifest", 1),  # half of what is measured on what
    ("replaced", "manifest", 1),
    ("write", "clean-0-000000", 1),  # in the middle of the first part
    ("replace", "clean-0-000016", 1),  # between its fsync and its rename
    ("replaced", "pgd-5-0-000000", 1),  # right after it
    ("write", "autoattack-1", 1),
    ("replaced", "autoattack-3", 1),
    ("write", "audit-ce-20", 1),  # in the middle of a look of the audit
    ("replaced", "audit-pgd-40x2", 1),
    ("write", "verdicts", 1),
    ("replaced", "verdicts", 1),
    ("write", "points", 1),
    ("replaced", "points", 1),
    ("write", "result.json", 1),
    ("replace", "result.json", 1),
]


@pytest.fixture(scope="module")
def whole(zygote, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "out"
    assert zygote.evaluate(folder) == 0, zygote.said()
    held = contents(folder)
    assert set(held) == set(SAME)
    return held


def contents(folder):
    return {name: (folder / name).read_bytes() for name in SAME if (folder / name).exists()}


def goes_on(zygote, out, whole):
    assert zygote.evaluate(out) == 0, zygote.said()
    assert contents(out) == whole
    assert not (out / "parts").exists()


@kills
def test_an_evaluation_survives_a_kill_at_every_place_that_hurts_one_after_another(zygote, whole, tmp_path):
    out = tmp_path / "out"
    for kill in TARGETED[2:]:
        assert zygote.evaluate(out, kill=kill) == KILLED, (kill, zygote.said())
        assert not (out / "result.json").exists()
    goes_on(zygote, out, whole)


@kills
@pytest.mark.parametrize("kill", TARGETED[:2], ids=lambda kill: " ".join(map(str, kill)))
def test_a_kill_before_anything_is_known_leaves_a_folder_to_begin_in(zygote, whole, tmp_path, kill):
    assert zygote.evaluate(tmp_path / "out", kill=kill) == KILLED
    goes_on(zygote, tmp_path / "out", whole)


@kills
@pytest.mark.parametrize("kill", [("replaced", "result.json", 1), ("rmtree", "parts", 1)], ids=lambda kill: kill[0])
def test_a_kill_after_the_numbers_are_there_loses_nothing(zygote, whole, tmp_path, kill):
    out = tmp_path / "out"
    assert zygote.evaluate(out, kill=kill) == KILLED
    assert contents(out) == whole
    assert zygote.evaluate(out) == 0, zygote.said()
    assert contents(out) == whole


@kills
def test_an_evaluation_survives_ten_kills_at_random_moments(zygote, whole, tmp_path):
    drawn, out, hit, number = random.Random(0), tmp_path / "out-0", 0, 0
    while hit < 10:
        status = zygote.evaluate(out, after=drawn.uniform(0.02, 0.4), slow=0.03)
        if status == KILLED:
            hit += 1
        if (out / "result.json").exists():
            assert contents(out) == whole
            number += 1
            out = tmp_path / f"out-{number}"
    goes_on(zygote, out, whole)


def judged(model, out, *, data="digits", **more):
    settings = {"eps": EPS, "attacks": ("pgd-3", "fgsm"), "samples": 48, "batch": 16, "audit": 0, **more}
    return evaluate(model, data, out=out, **settings)


class Stop(Exception):
    pass


@pytest.fixture
def stopped(honest, tmp_path, monkeypatch):
    """The folder of an evaluation that was stopped after five parts, of nine or so."""
    calls, keep = [], measure._Work._part

    def part(self, *args):
        if len(calls) == 5:
            raise Stop
        calls.append(args)
        return keep(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(measure._Work, "_part", part)
        with pytest.raises(Stop):
            judged(honest, tmp_path / "out")
    assert len(list((tmp_path / "out" / "parts").iterdir())) == 5
    return tmp_path / "out"


@pytest.fixture
def looks(monkeypatch):
    """The keys of all that is judged."""
    seen = []
    for name in ("judge", "classify"):
        original = getattr(measure, name)

        def counted(*args, original=original, name=name):
            seen.append(name)
            return original(*args)

        monkeypatch.setattr(measure, name, counted)
    return seen


def test_what_is_finished_is_not_done_again(honest, stopped, tmp_path, looks):
    found = judged(honest, stopped)
    continued = len(looks)
    looks.clear()
    expected = judged(honest, tmp_path / "other")
    assert continued == len(looks) - 5
    assert contents(stopped) == contents(tmp_path / "other")
    assert found.result == expected.result


def _flip(path):
    held = bytearray(path.read_bytes())
    held[-5] ^= 16
    path.write_bytes(held)


DAMAGE = {
    "flipped": _flip,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-10]),
    "empty": lambda path: path.write_bytes(b""),
    "foreign": lambda path: shutil.copy(path.with_name("clean-0-000032.safetensors"), path),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_part_is_done_again(honest, stopped, tmp_path, looks, damage):
    DAMAGE[damage](stopped / "parts" / "clean-0-000016.safetensors")
    judged(honest, stopped)
    continued = len(looks)
    looks.clear()
    judged(honest, tmp_path / "other")
    assert continued == len(looks) - 4
    assert contents(stopped) == contents(tmp_path / "other")


def snapshot(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def other_weights(honest):
    model = torch.nn.Sequential(*honest)
    changed = torch.nn.Linear(1024, 10)
    changed.load_state_dict(honest[3].state_dict())
    with torch.no_grad():
        changed.bias[0] += 1e-6
    model[3] = changed
    return model.eval()


def other_data():
    test = kit.load("digits").test
    x = test.x.clone()
    x[7, 0, 0, 0] += 1
    return Dataset("digits", test, Images(x, test.y), tuple("0123456789"), False)


def other_labels():
    test = kit.load("digits").test
    return Dataset("digits", test, Images(test.x, test.y.roll(1)), tuple("0123456789"), False)


CHANGED = {
    "weights": (lambda model: other_weights(model), {}, "the model"),
    "pixel": (lambda model: model, {"data": other_data()}, "the data"),
    "labels": (lambda model: model, {"data": other_labels()}, "the data"),
    "samples": (lambda model: model, {"samples": 47}, "the data|samples"),
    "eps": (lambda model: model, {"eps": 0.2}, "eps"),
    "norm": (lambda model: model, {"norm": "l2"}, "norm"),
    "attacks": (lambda model: model, {"attacks": ("pgd-3",)}, "attacks"),
    "seed": (lambda model: model, {"seed": 1}, "seed"),
    "batch": (lambda model: model, {"batch": 8}, "batch"),
    "audit": (lambda model: model, {"audit": 5}, "audit"),
    "points": (lambda model: model, {"points": True}, "points"),
}


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("what", CHANGED)
def test_going_on_with_anything_else_is_refused_by_name(honest, stopped, what, finished):
    if finished:
        judged(honest, stopped)
    before = snapshot(stopped)
    change, settings, named = CHANGED[what]
    with pytest.raises(ValueError, match=r"out = .* it began with.*choose another folder") as caught:
        judged(change(honest), stopped, **settings)
    message = str(caught.value).replace(str(stopped), "")
    assert any(part in message for part in named.split("|")), message
    assert snapshot(stopped) == before


class Turned(torch.nn.Module):
    """Equal weights do not make equal models."""

    def __init__(self, inner, factor):
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x):
        return self.factor * self.inner(x)


def test_a_model_that_computes_something_else_from_the_same_weights_is_refused(honest, tmp_path):
    judged(Turned(honest, 1.0).eval(), tmp_path / "out")
    with pytest.raises(ValueError, match="the model it began with"):
        judged(Turned(honest, -1.0).eval(), tmp_path / "out")


OTHER_NETWORKS = {
    "weights": (kit.omega(0), kit.omega(1)),
    "features": (kit.omega(classes=1, features="margin"), kit.omega(classes=1, features="adversarial-loss")),
    "point": (kit.omega(), kit.omega(margin_from="adversarial")),
}


@pytest.mark.parametrize("what", OTHER_NETWORKS)
def test_another_weight_network_is_refused_by_name(honest, tmp_path, what):
    first, second = OTHER_NETWORKS[what]
    judged(honest, tmp_path / "out", attacks=("weight-aware-2",), omega=first)
    before = snapshot(tmp_path / "out")
    with pytest.raises(ValueError, match=r"it began with.*choose another folder") as caught:
        judged(honest, tmp_path / "out", attacks=("weight-aware-2",), omega=second)
    assert "network of weight-aware-2" in str(caught.value)
    assert snapshot(tmp_path / "out") == before


def test_threads_and_device_may_change(honest, stopped, tmp_path):
    judged(honest, stopped, compute=ComputeConfig(device="cpu", threads=1))
    judged(honest, tmp_path / "other")
    assert contents(stopped) == contents(tmp_path / "other")


def test_a_finished_evaluation_is_read_and_not_made_again(honest, tmp_path, looks):
    first = judged(honest, tmp_path / "out", points=True, audit=10)
    before, model = snapshot(tmp_path / "out"), Wrapped(honest).eval()
    looks.clear()
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    again = judged(honest, tmp_path / "out", points=True, audit=10)
    assert looks == []
    assert (again.result, again.scores, again.audit) == (first.result, first.scores, first.audit)
    assert torch.equal(again.places, first.places)
    for name, verdicts in first.verdicts.items():
        for one, other in zip(verdicts, again.verdicts[name], strict=True):
            assert (one is None and other is None) or torch.equal(one, other)
    assert snapshot(tmp_path / "out") == before
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    judged(model, tmp_path / "counted", audit=10)
    model.counted = 0
    judged(model, tmp_path / "counted", audit=10)
    assert model.counted <= 8 + 8  # the door's and the digest
