"""What an evaluation leaves behind: numbers by the published schema, a card, an entry for RobustBench."""

import copy
import json
from pathlib import Path

import evaluation_kit as kit
import jsonschema
import pytest
import torch
from evaluation_kit import EPS
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from bilaw import evaluate
from bilaw.attacks import weight_aware_pgd
from bilaw.evaluation.card import model_info, page
from bilaw.evaluation.result import describe, schema
from bilaw.evaluation.store import read_points, read_result, read_verdicts
from bilaw.rng import generator
from bilaw.types import Batch

ATTACKS = ("pgd-3", "autoattack")


@pytest.fixture(scope="module")
def done(honest, tmp_path_factory):
    """A finished evaluation, and its folder."""
    folder = tmp_path_factory.mktemp("done") / "out"
    with pytest.MonkeyPatch.context() as patch:
        kit.make_cheap(patch.setattr)
        about = {"method": "at", "seed": 3}
        found = evaluate(
            honest, "digits", eps=EPS, attacks=ATTACKS, samples=60, audit=20, points=True, out=folder, about=about
        )
    return found, folder


def valid(result):
    jsonschema.Draft202012Validator(schema()).validate(result)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema())


def test_a_result_keeps_to_the_schema(done, honest):
    found, folder = done
    valid(found.result)
    valid(json.loads((folder / "result.json").read_text()))
    valid(evaluate(lambda x: honest(x), *kit.digits(20), eps=0, norm="l2", attacks=(), audit=0, samples=None).result)


def _without(result, *path):
    at = result
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]


def _with(result, value, *path):
    at = result
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value


BROKEN = {
    "another schema": lambda r: _with(r, "bilaw-result-2", "schema"),
    "no scores": lambda r: _with(r, [], "scores"),
    "no data": lambda r: _without(r, "data"),
    "no interval": lambda r: _without(r, "scores", 0, "low"),
    "accuracy in percent": lambda r: _with(r, 96.0, "scores", 0, "accuracy"),
    "a time": lambda r: _with(r, 12.5, "seconds"),
    "unknown verdict": lambda r: _with(r, "fine", "audit", 0, "verdict"),
    "unknown norm": lambda r: _with(r, "l1", "threat", "norm"),
    "one class": lambda r: _with(r, 1, "data", "classes"),
    "no samples": lambda r: _with(r, 0, "data", "samples"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_result_does_not(done, how):
    result = copy.deepcopy(done[0].result)
    BROKEN[how](result)
    with pytest.raises(jsonschema.ValidationError):
        valid(result)


def test_the_folder_holds_what_it_says_and_nothing_half_done(done):
    found, folder = done
    assert sorted(path.name for path in folder.iterdir()) == [
        "card.md",
        "manifest.json",
        "model_info.json",
        "points.safetensors",
        "result.json",
        "timing.json",
        "verdicts.safetensors",
    ]
    assert read_result(folder) == found.result
    held = read_verdicts(folder)
    assert torch.equal(held["index"], found.places)
    assert torch.equal(held["y"], kit.digits(60).y)
    for name, verdicts in found.verdicts.items():
        assert torch.equal(held[f"{name} robust"], verdicts.robust)
        assert torch.equal(held[f"{name} by"], verdicts.by)
        assert torch.equal(held[f"{name} loss"], verdicts.loss)
    points = read_points(folder)
    assert set(points) == set(ATTACKS)
    assert all(torch.equal(points[name], found.verdicts[name].points) for name in ATTACKS)


def test_what_was_judged_is_told(done, honest):
    result = done[0].result
    assert result["model"]["parameters"] == sum(p.numel() for p in honest.parameters())
    assert (result["model"]["method"], result["model"]["seed"]) == ("at", 3)
    assert {key: result["data"][key] for key in ("name", "half", "samples", "of", "classes")} == {
        "name": "digits",
        "half": "test",
        "samples": 60,
        "of": 450,
        "classes": 10,
    }
    assert result["threat"] == {"norm": "linf", "eps": EPS}
    assert result["settings"]["attacks"] == ["clean", *ATTACKS]
    assert result["environment"]["torch"] == torch.__version__


def test_the_card_tells_model_data_threat_scores_and_audit(done):
    found, folder = done
    text = (folder / "card.md").read_text()
    assert text == page(found.result)
    assert f"{found.result['model']['parameters']:,} parameters, trained by at with seed 3." in text
    assert "digits, 60 of 450 samples of the test half, 10 classes" in text
    assert "linf, eps 0.1, pixels in [0, 1]" in text
    for name, score in found.scores.items():
        assert f"| {name} | {score.accuracy:.2%} | {score.low:.1%} to {score.high:.1%} |" in text
    for finding in found.audit:
        assert f"| {finding.check} | {finding.verdict} | {finding.meaning} |" in text


def test_a_card_marks_what_cannot_be_relied_on(done):
    result = copy.deepcopy(done[0].result)
    result["scores"][1]["reliable"] = False
    (row,) = [line for line in page(result).splitlines() if line.startswith("| pgd-3 ")]
    assert row.endswith("| **unreliable** |")
    result["audit"] = []
    for score in result["scores"]:
        score["reliable"] = None
    assert page(result).count("| not audited |") == 3
    assert "nothing vouches for these numbers" in page(result)
    assert model_info(result)["unreliable"] is None


def test_the_entry_for_robustbench_is_in_its_terms(done):
    found, folder = done
    info = json.loads((folder / "model_info.json").read_text())
    assert info == model_info(found.result)
    assert info["clean_acc"] == round(100 * found.scores["clean"].accuracy, 2)
    assert info["autoattack_acc"] == round(100 * found.scores["autoattack"].accuracy, 2)
    assert (info["threat_model"], info["eps"], info["dataset"]) == ("Linf", EPS, "digits")
    assert info["unreliable"] is (not found.scores["autoattack"].reliable)
    result = copy.deepcopy(found.result)
    result["scores"][2]["reliable"] = False
    assert model_info(result)["unreliable"] is True
    del result["scores"][2]
    assert (model_info(result)["autoattack_acc"], model_info(result)["unreliable"]) == (None, None)


def test_a_description_has_a_line_for_every_number(done):
    lines = describe(done[0].result)
    for name, score in done[0].scores.items():
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert f"{score.accuracy:.2%}" in line
        assert f"[{score.low:.1%}, {score.high:.1%}]" in line


def _run_with_network(folder: Path, omega):
    """As much of a run's folder as `load_omega` reads."""
    folder.mkdir(parents=True)
    held = {name: value.clone() for name, value in omega.network.state_dict().items()}
    save_file(held, folder / "omega.safetensors", {"features": "multiclass-margin", "margin_from": "clean"})
    return folder


def test_weight_aware_attacks_use_the_own_network_or_anothers(honest, tmp_path):
    own, other = kit.omega(0), kit.omega(1)
    partial = f"weight-aware-4:{_run_with_network(tmp_path / 'other', other)}"
    images = kit.digits(40)
    names = ("weight-aware-4", partial)
    found = evaluate(honest, *images, eps=EPS, attacks=names, omega=own, audit=10, points=True, out=tmp_path / "out")
    right = found.verdicts["clean"].robust.nonzero()[:, 0]
    for name, network in zip(names, (own, other), strict=True):
        attack = weight_aware_pgd(EPS, weight=network.at, norm="linf", steps=4)
        batch = Batch(images.x[right], images.y[right], right)
        expected = attack(honest, batch, generator(0, "evaluate", name, name, 0)).x
        loss = F.cross_entropy(honest(expected), batch.y, reduction="none").detach()
        held = found.verdicts[name]
        assert torch.equal(held.robust[right], honest(expected).argmax(1) == batch.y)
        assert torch.allclose(held.loss[right], loss.maximum(found.verdicts["clean"].loss[right]), atol=1e-5)
    assert not torch.equal(found.verdicts[names[0]].points, found.verdicts[partial].points)
    assert set(load_file(tmp_path / "out" / "points.safetensors")) == set(names)


def test_two_networks_whose_folders_differ_in_one_sign_are_kept_apart(honest, tmp_path):
    names = [
        f"weight-aware-4:{_run_with_network(tmp_path / folder, kit.omega(seed))}"
        for seed, folder in enumerate(("a/b", "a_b"))
    ]
    both = evaluate(honest, *kit.digits(40), eps=EPS, attacks=names, audit=0, out=tmp_path / "out")
    for name in names:
        alone = evaluate(honest, *kit.digits(40), eps=EPS, attacks=[name], audit=0)
        assert torch.equal(alone.verdicts[name].loss, both.verdicts[name].loss)


def test_a_network_for_other_classes_is_refused(honest, tmp_path):
    name = f"weight-aware-4:{_run_with_network(tmp_path / 'other', kit.omega(classes=4))}"
    with pytest.raises(ValueError, match=r"a network for 10 classes; this one takes 4 features"):
        evaluate(honest, *kit.digits(20), eps=EPS, attacks=[name])
