"""What is not there is left out or said, and never crashes: odd runs, odd data, figure by figure."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from analysis_kit import judge, npz, read, train
from safetensors.torch import load_file, save_file

from bilaw import analysis, sealed
from bilaw.analysis import OF_RUN, OF_RUNS
from bilaw.analysis.study import studies
from bilaw.report.page import page


def survey(*some):
    """Draw everything; return the words of what is missing, by figure."""
    said = {}
    for name, draw in OF_RUNS.items():
        try:
            assert draw(some).figure.axes
        except analysis.Missing as why:
            said[name] = str(why)
    for name, draw in OF_RUN.items():
        try:
            assert draw(some[0]).figure.axes
        except analysis.Missing as why:
            said[name] = str(why)
    assert "<html" in page(some)
    return said


def copied(run, home):
    return shutil.copytree(run, home / run.name)


def test_an_evaluated_run_that_learned_weights_lacks_nothing_but_a_rival(learned):
    assert survey(learned) == {"comparison": "There is one run alone: `bilaw report RUN RUN` compares two."}


def test_plain_training_has_no_weights_and_no_training_eps(tmp_path):
    one = read(train(tmp_path / "plain", "plain", optim__epochs=1), samples=60)
    said = survey(one)
    assert set(said) == {"comparison", "scores", "audit", "weights", "progress", "schemes", "omega"}
    assert said["schemes"] == "plain weighs all samples the same."
    assert "bilaw evaluate" in said["scores"]
    assert analysis.ranks([one]).data["plain"]["eps"] is None


def test_without_a_weight_history(trained, tmp_path):
    folder = copied(trained / "learned", tmp_path)
    for name in ("weights.f16", "weights.json"):
        (folder / name).unlink()
    said = survey(read(folder))
    assert set(said) == {"comparison", "progress"}
    assert "no weight history" in said["progress"]
    assert "training" not in analysis.distribution(read(folder)).data


def test_a_history_that_was_cut_short_counts_as_none(trained, tmp_path):
    folder = copied(trained / "learned", tmp_path)
    held = (folder / "weights.f16").read_bytes()
    (folder / "weights.f16").write_bytes(held[:-100])
    assert "no weight history" in survey(read(folder))["progress"]


def test_without_any_evaluation_the_probe_stands_in(trained, tmp_path):
    folder = copied(trained / "learned", tmp_path)
    shutil.rmtree(folder / "evaluation")
    one = read(folder, samples=50)
    assert set(survey(one)) == {"comparison", "scores", "audit"}
    assert analysis.classes([one]).data["learned"]["attack"] == "PGD-20"
    assert len(one.seen.y) == 50


def test_an_evaluation_of_other_weights_is_left_out_and_said(trained, tmp_path):
    folder = tmp_path / "learned"
    shutil.copytree(trained / "learned", folder)
    assert read(folder, look=False).scores
    weights = {name: 1.01 * value for name, value in load_file(folder / "best.safetensors").items()}
    save_file(weights, folder / "best.safetensors")
    found = read(folder, look=False)
    assert not found.scores
    assert any("of other weights than the run's best" in note for note in found.notes)


def test_without_an_audit_that_is_said(trained, tmp_path):
    folder = copied(trained / "learned", tmp_path)
    shutil.rmtree(folder / "evaluation")
    judge(folder, audit=0, samples=40)
    said = survey(read(folder))
    assert "nothing vouches" in said["audit"]


def test_a_run_that_has_only_begun(trained, tmp_path):
    folder = copied(trained / "learned", tmp_path)
    for name in ("best.safetensors", "omega.safetensors"):
        (folder / name).unlink()
    for name in ("metrics.jsonl", "timing.jsonl", "weights.f16"):
        (folder / name).write_bytes(b"")
    shutil.rmtree(folder / "evaluation")
    shutil.rmtree(folder / "analysis", ignore_errors=True)
    said = survey(read(folder))
    assert set(said) == {*OF_RUN, *OF_RUNS}
    assert "no best epoch yet" in said["confusion"]


@pytest.mark.parametrize("how", ["model", "data"])
def test_a_run_whose_model_or_data_is_gone_still_tells_its_curves(trained, tmp_path, how):
    folder = copied(trained / "learned", tmp_path)
    text = (folder / "config.toml").read_text()
    old, new = {"model": ('"fc1"', '"nowhere:net"'), "data": ('"digits"', '"/nowhere/gone.npz"')}[how]
    assert old in text
    (folder / "config.toml").write_text(text.replace(old, new))
    one = read(folder)
    said = survey(one)
    assert "curves" not in said
    assert "scores" not in said
    assert "nowhere" in said["confusion"]
    assert "nowhere" in one.notes[0]


def test_a_weight_network_that_is_gone_is_said(trained, tmp_path):
    folder = copied(trained / "learned", tmp_path)
    (folder / "omega.safetensors").unlink()
    said = survey(read(folder))
    assert set(said) == {"comparison", "schemes", "omega"}


def test_verdicts_of_other_samples_are_not_compared(trained, tmp_path, even):
    folder = copied(trained / "learned", tmp_path)
    shutil.rmtree(folder / "evaluation")
    judge(folder, samples=50)
    assert "same samples" in survey(read(folder), even)["comparison"]


def test_a_second_evaluation_beside_the_first_adds_its_attacks(trained, tmp_path):
    folder = copied(trained / "learned", tmp_path)
    judge(folder, folder / "evaluation-square", samples=30, attacks=("fgsm",))
    (folder / "evaluation-half").mkdir()
    one = read(folder)
    assert list(one.scores) == ["clean", "pgd-5", "fgsm"]
    assert len(one.verdicts["fgsm"].place) == 30
    assert any("evaluation-half is not finished" in note for note in one.notes)
    result = folder / "evaluation-square" / "result.json"
    held = json.loads(result.read_text())
    result.write_text(json.dumps({**held, "threat": {"norm": "l2", "eps": 1.0}}))
    assert "fgsm" not in read(folder).scores
    assert any("another ball" in note for note in read(folder).notes)


def test_two_classes(tmp_path):
    data = npz(tmp_path / "two.npz", 2, 60, np.arange(30) % 2)
    run = train(tmp_path / "run", "bilaw-trades", data__name=str(data), optim__epochs=1, optim__batch=16)
    judge(run, samples=None, data=data)
    one = read(run)
    assert set(survey(one)) == {"comparison"}
    assert analysis.ranks([one]).data["run"]["rank"].tolist() == [1]
    assert analysis.omega(one).data["raw"].shape[:2] == (2, 2)


def test_one_class_alone_among_the_samples(tmp_path):
    data = npz(tmp_path / "one.npz", 3, 40, np.ones(12, dtype=int))
    run = train(tmp_path / "run", "bilaw-trades", data__name=str(data), optim__epochs=1, optim__batch=16)
    judge(run, samples=None, data=data)
    one = read(run)
    assert set(survey(one)) == {"comparison"}
    shares = analysis.classes([one]).data["run"]["robust"]
    assert np.isnan(shares[[0, 2], 0]).all()
    assert shares[1, 3] == 12


def test_a_thousand_classes(tmp_path):
    data = npz(tmp_path / "many.npz", 1000, 4, np.arange(0, 1000, 5), size=3)
    run = train(tmp_path / "run", "bilaw", data__name=str(data), optim__epochs=1, optim__batch=256, attack__steps=1)
    judge(run, samples=None, data=data, attacks=("fgsm",), audit=0)
    one = read(run)
    assert set(survey(one)) == {"comparison", "audit"}
    assert len(page([one])) < 6e6


def test_data_without_a_test_half_are_seen_on_select(tmp_path):
    with np.load(npz(tmp_path / "both.npz", 3, 60, [0])) as held:
        np.savez(tmp_path / "half.npz", x=held["x_train"], y=held["y_train"])
    run = train(tmp_path / "run", "trades", data__name=str(tmp_path / "half.npz"), optim__epochs=1, optim__batch=16)
    one = read(run)
    assert one.seen.facts["half"] == "select"
    assert one.seen.place.tolist() == one.run.splits()["select"].tolist()
    assert "confusion" not in survey(one)


def test_a_probe_is_made_once_and_made_anew_for_other_weights(trained, tmp_path):
    folder = copied(trained / "even", tmp_path)
    shutil.rmtree(folder / "analysis", ignore_errors=True)
    seen = []
    first = read(folder, samples=40, watch=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    (file,) = (folder / "analysis").iterdir()
    stamp = file.stat().st_mtime_ns
    again = read(folder, samples=40, watch=lambda done, total: pytest.fail("nothing is left to do"))
    assert file.stat().st_mtime_ns == stamp
    assert torch.equal(first.seen.logits_adv, again.seen.logits_adv)
    shutil.copy(trained / "learned" / "best.safetensors", folder / "best.safetensors")
    other = read(folder, samples=40)
    assert not torch.equal(first.seen.logits, other.seen.logits)
    (only,) = (folder / "analysis").iterdir()
    assert only != file


def test_a_killed_probe_goes_on_where_it_was_and_comes_to_the_same(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("bilaw.analysis.probe.BATCH", 16)
    folder = copied(trained / "even", tmp_path)
    shutil.rmtree(folder / "analysis", ignore_errors=True)

    def kill(done, total):
        if done > 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(folder, samples=64, watch=kill)
    (parts,) = (folder / "analysis").iterdir()
    kept = sorted(parts.iterdir())
    assert len(kept) == 3
    kept[0].write_bytes(b"damaged")
    stamp = kept[1].stat().st_mtime_ns
    resumed = []
    one = read(folder, samples=64, watch=lambda done, total: resumed.append(kept[1].stat().st_mtime_ns == stamp))
    assert all(resumed[:-1])
    assert not parts.exists()
    whole = copied(trained / "even", tmp_path / "whole")
    other = read(whole, samples=64)
    for name in ("logits", "logits_adv", "change", "survived", "robust"):
        assert torch.equal(getattr(one.seen, name), getattr(other.seen, name)), name


def test_a_damaged_probe_is_made_again(trained, tmp_path):
    folder = copied(trained / "even", tmp_path)
    first = read(folder)
    (file,) = (folder / "analysis").iterdir()
    held = bytearray(file.read_bytes())
    held[-9] ^= 1
    file.write_bytes(held)
    assert torch.equal(read(folder).seen.logits, first.seen.logits)
    assert sealed.read(file)


def test_runs_of_one_name_are_told_apart_by_their_paths(trained, tmp_path):
    copied(trained / "even", tmp_path / "a")
    copied(trained / "even", tmp_path / "b")
    paths = [tmp_path / "a" / "even", tmp_path / "b" / "even"]
    assert [one.name for one in studies(paths, lambda path, name: read(path, name=name))] == list(map(str, paths))


def test_runs_on_other_data_stand_in_one_page(tmp_path, learned):
    data = npz(tmp_path / "two.npz", 2, 60, np.arange(30) % 2)
    run = train(tmp_path / "run", "at", data__name=str(data), optim__epochs=1, optim__batch=16)
    judge(run, samples=None, data=data)
    said = survey(learned, read(run))
    assert set(said) == {"comparison"}
    assert list(analysis.classes([learned, read(run)]).data) == ["learned"]


def test_an_evaluation_on_other_data_is_left_out_and_said(trained, tmp_path):
    folder = copied(trained / "learned", tmp_path)
    shutil.rmtree(folder / "evaluation")
    with np.load(npz(tmp_path / "other.npz", 10, 8, np.arange(50) % 10, size=8)) as held:
        np.savez(tmp_path / "only.npz", **held)
    judge(folder, data=tmp_path / "only.npz", samples=None)
    one = read(folder, samples=20)
    assert not one.scores
    assert any("other data than the run's" in note for note in one.notes)


def test_logits_that_are_no_numbers_are_as_likely_everywhere(learned):
    logits = learned.seen.logits.clone()
    logits[3] = torch.nan
    assert survey(replace(learned, probe=learned.seen._replace(logits=logits)))


def test_a_ball_in_l2(tmp_path):
    run = train(tmp_path / "run", "bilaw", attack__norm="l2", attack__eps=0.5, optim__epochs=1)
    one = read(run, samples=50)
    moved = one.seen.change.float().flatten(1) / 127 * one.seen.size[:, None]
    assert moved.norm(dim=1).max() < 0.5 * 1.02
    assert set(survey(one)) == {"comparison", "scores", "audit"}
