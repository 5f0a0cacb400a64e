"""Evaluations side by side: marks only where there is more than chance, and only on the same samples."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bilaw.cli import main
from bilaw.commands.compare import explained
from bilaw.evaluation.compare import compare, open_judged
from bilaw.evaluation.statistics import Pair, mcnemar, wilson
from bilaw.evaluation.store import SCHEMA, Folder, read_verdicts

N = 400


def write(folder, robust, *, attack="pgd-20", data="same", eps=0.1, reliable=True):
    """An evaluation with verdicts as told: an accuracy, or (N,) bool."""
    if not isinstance(robust, torch.Tensor):
        robust = torch.arange(N) < round(robust * N)
    clean = torch.ones(N, dtype=torch.bool)
    scores = []
    for name, verdict in (("clean", clean), (attack, robust)):
        hits = int(verdict.sum())
        low, high = wilson(hits, N)
        scores.append(
            {
                "attack": name,
                "accuracy": hits / N,
                "low": low,
                "high": high,
                "hits": hits,
                "n": N,
                "broken_by": {},
                "reliable": reliable if name == attack else True,
            }
        )
    result = {"schema": SCHEMA, "scores": scores, "data": {"digest": data}, "threat": {"norm": "linf", "eps": eps}}
    verdicts = {"clean robust": clean, f"{attack} robust": robust}
    Folder(folder, {}).finish(result, verdicts, {}, {})
    return folder


def opened(folder, group=None):
    return open_judged(folder, folder.name, group or folder.name)


def shifted(count):
    """As many right as 0.6 of all, but `count` other ones."""
    return (torch.arange(N) >= count) & (torch.arange(N) < round(0.6 * N) + count)


def test_the_best_is_marked_where_it_is_no_chance(tmp_path):
    found = compare([opened(write(tmp_path / name, share)) for name, share in (("a", 0.5), ("b", 0.7), ("c", 0.4))])
    assert found.attacks == ["clean", "pgd-20"]
    assert [name for name, row in found.rows.items() if row["pgd-20"].best] == ["b"]
    assert not any(row["clean"].best for row in found.rows.values())
    told = {(one.a, one.b): one for one in found.differences if one.attack == "pgd-20"}
    assert set(told) == {("b", "a"), ("b", "c")}
    assert told["b", "a"].difference == pytest.approx(0.2)
    assert told["b", "a"].interval[0] < 0.2 < told["b", "a"].interval[1]
    assert told["b", "a"].counts == Pair(80, 0, N)
    assert told["b", "a"].p == pytest.approx(2 * mcnemar(Pair(80, 0, N)), rel=0.5)


def test_the_best_is_not_marked_where_it_may_be_chance(tmp_path):
    found = compare([opened(write(tmp_path / name, share)) for name, share in (("a", 0.5), ("b", 0.51))])
    (one,) = [one for one in found.differences if one.attack == "pgd-20"]
    assert one.p == mcnemar(Pair(4, 0, N)) == 0.125
    assert not any(cell.best for row in found.rows.values() for cell in row.values())


def test_a_difference_that_one_rival_leaves_several_take_away(tmp_path):
    shares = {"a": 0.5, "b": 0.515, "c": 0.5, "d": 0.5}  # 6 samples: p = 0.031, of three rivals 0.094
    folders = {name: write(tmp_path / name, share) for name, share in shares.items()}
    two = compare([opened(folders[name]) for name in "ab"])
    four = compare([opened(folders[name]) for name in "abcd"])
    assert two.rows["b"]["pgd-20"].best
    assert not four.rows["b"]["pgd-20"].best
    assert [one.p for one in four.differences if one.attack == "pgd-20"] == pytest.approx([3 * 2 / 2**6] * 3)


def test_equal_accuracies_on_other_samples_are_a_tie(tmp_path):
    found = compare([opened(write(tmp_path / "a", shifted(0))), opened(write(tmp_path / "b", shifted(100)))])
    (one,) = [one for one in found.differences if one.attack == "pgd-20"]
    assert (one.difference, one.p, one.counts.only_a) == (0, 1, 100)


@pytest.mark.parametrize("other", [{"data": "other"}, {"eps": 0.2}])
def test_other_samples_or_balls_are_refused(tmp_path, other, capsys):
    a, b = write(tmp_path / "a", 0.5), write(tmp_path / "b", 0.6, **other)
    assert main(["compare", str(a), str(b)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    what = "data" if "data" in other else "threat"
    assert f"the same {what} as a, " in err
    assert err.count("\n") == 1


def test_only_attacks_that_all_have_are_compared(tmp_path):
    found = compare([opened(write(tmp_path / "a", 0.5)), opened(write(tmp_path / "b", 0.6, attack="fgsm"))])
    assert found.attacks == ["clean"]


def test_seeds_are_one_row_tested_by_their_means(tmp_path):
    shares = {"a": [0.50, 0.51, 0.49], "b": [0.60, 0.61, 0.62], "c": [0.9]}
    judged = [
        opened(write(tmp_path / f"{group}{seed}", share), group)
        for group, held in shares.items()
        for seed, share in enumerate(held)
    ]
    found = compare(judged[:6])
    cell = found.rows["b"]["pgd-20"]
    assert cell.best
    assert cell.accuracy == pytest.approx(0.61, abs=1e-3)
    assert cell.spread.deviation == pytest.approx(0.01, abs=2e-3)
    assert cell.low < 0.60 < 0.62 < cell.high
    (one,) = [one for one in found.differences if one.attack == "pgd-20"]
    assert (one.interval, one.counts) == (None, None)
    assert one.p < 0.01
    mixed = compare(judged)
    assert not mixed.rows["c"]["pgd-20"].best  # one seed against several: nothing is known
    assert {one.p for one in mixed.differences if one.attack == "pgd-20"} == {None}


def test_one_unreliable_seed_makes_its_row_unreliable(tmp_path):
    a, b = (write(tmp_path / name, 0.5, reliable=reliable) for name, reliable in (("a", True), ("b", False)))
    none = write(tmp_path / "c", 0.5, reliable=None)
    assert compare([opened(a, "g"), opened(b, "g")]).rows["g"]["pgd-20"].reliable is False
    assert compare([opened(a, "g"), opened(none, "g")]).rows["g"]["pgd-20"].reliable is None


def test_the_table_marks_the_best_and_the_unreliable(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, share, reliable in (("a", 0.5, True), ("b", 0.7, None), ("c", 0.9, False)):
        write(Path(name), share, reliable=reliable)
    assert main(["compare", "a", "b", "c"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["run", "clean", "pgd-20"]
    rows = {line.split()[0]: line for line in out[1:4]}
    assert " 50.0% [" in rows["a"]
    assert "*?70.0% [" in rows["b"]
    assert " !90.0% [" in rows["c"]
    assert "* better than every other row, p < 0.05" in out
    assert "! unreliable: a check of the audit failed; see the run's card.md. It is compared with nothing" in out
    assert "? not audited" in out
    assert "pgd-20: b - a = +20.0 points" in out[-1]
    assert "only the first right 80, only the second 0, p = 1.7e-24" in out[-1]
    assert not any("c" in line.split()[1:4:2] for line in out if line.startswith("pgd-20: "))


def test_a_table_says_nothing_of_marks_it_does_not_have(tmp_path, capsys):
    assert main(["compare", *(str(write(tmp_path / name, 0.5)) for name in "ab")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not any(line.startswith(("*", "!", "?")) for line in lines)


def test_an_unreliable_top_takes_no_star_and_takes_none_from_the_honest_best(tmp_path):
    shares = {"a": 0.5, "b": 0.6, "masked": 0.9}
    judged = [opened(write(tmp_path / name, share, reliable=name != "masked")) for name, share in shares.items()]
    found = compare(judged)
    assert {name: row["pgd-20"].best for name, row in found.rows.items()} == {"a": False, "b": True, "masked": False}
    assert found.rows["masked"]["pgd-20"].reliable is False
    (one,) = [one for one in found.differences if one.attack == "pgd-20"]
    assert (one.a, one.b) == ("b", "a")
    assert one.p == mcnemar(Pair(40, 0, N))  # of one rival, not of two
    assert {(one.a, one.b) for one in found.differences if one.attack == "clean"} == {("a", "b"), ("a", "masked")}


def test_of_unreliable_numbers_alone_none_is_best(tmp_path):
    found = compare([opened(write(tmp_path / name, share, reliable=False)) for name, share in (("a", 0.5), ("b", 0.9))])
    assert not any(row["pgd-20"].best for row in found.rows.values())
    alone = compare([opened(write(tmp_path / name, 0.5, reliable=name == "c")) for name in ("c", "d")])
    assert not any(row["pgd-20"].best for row in alone.rows.values())
    assert [one for one in alone.differences if one.attack == "pgd-20"] == []


@pytest.mark.parametrize("agreeing", ["a", "b"])
def test_seeds_that_agree_to_the_last_sample_get_no_test(tmp_path, agreeing):
    shares = {"a": [0.5, 0.52], "b": [0.7, 0.72]}
    shares[agreeing] = [shares[agreeing][0]] * 2
    folders = {name: [write(tmp_path / f"{name}{i}", share) for i, share in enumerate(shares[name])] for name in "ab"}
    found = compare([opened(folder, name) for name, held in folders.items() for folder in held])
    (one,) = [one for one in found.differences if one.attack == "pgd-20"]
    assert one.p is None
    assert one.difference > 0.17
    assert not any(row["pgd-20"].best for row in found.rows.values())
    assert explained(one).endswith("no test: too few seeds, or seeds that all agree")


@pytest.mark.parametrize("how", ["flipped", "truncated", "empty", "unsealed", "missing"])
def test_damaged_verdicts_are_refused_by_name(tmp_path, how, capsys):
    a, b = write(tmp_path / "a", 0.5), write(tmp_path / "b", 0.6)
    file = b / "verdicts.safetensors"
    held = file.read_bytes()
    if how == "unsealed":
        save_file(read_verdicts(b), file)
    elif how == "missing":
        file.unlink()
    else:
        at = {"flipped": held[:-5] + bytes([held[-5] ^ 1]) + held[-4:], "truncated": held[:-10], "empty": b""}
        file.write_bytes(at[how])
    with pytest.raises(ValueError, match=r"b/verdicts\.safetensors"):
        opened(b)
    assert main(["compare", str(a), str(b)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert str(file) in err


@pytest.mark.parametrize("schema", ["bilaw-result-2", None])
def test_a_result_of_another_schema_is_refused_by_name(tmp_path, schema, capsys):
    a = write(tmp_path / "a", 0.5)
    held = json.loads((a / "result.json").read_text())
    (a / "result.json").write_text(json.dumps({**held, "schema": schema}))
    assert main(["compare", str(a)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"a result of schema {SCHEMA}, not {schema!r}" in err


def test_a_file_gets_every_column_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "40")
    names = [f"a-run-with-a-rather-long-name-{i}" for i in range(2)]
    for name, share in zip(names, (0.5, 0.7), strict=True):
        write(Path(name), share, attack="weight-aware-20:runs/another-run-with-a-long-name")
    assert main(["compare", *names]) == 0
    out = capsys.readouterr().out
    assert "weight-aware-20:runs/another-run-with-a-long-name" in out.splitlines()[0]
    assert all(name in out for name in names)
    assert "*70.0% [65.3%, 74.3%]" in out


def test_json_says_the_same(tmp_path, capsys):
    a, b = write(tmp_path / "a", 0.5), write(tmp_path / "b", 0.7)
    assert main(["compare", "--json", str(a), str(b)]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["attacks"] == ["clean", "pgd-20"]
    assert held["rows"]["b"]["pgd-20"]["best"] is True
    assert held["rows"]["a"]["pgd-20"]["accuracy"] == 0.5
    (one,) = [one for one in held["differences"] if one["attack"] == "pgd-20"]
    assert one["counts"] == {"only_a": 80, "only_b": 0, "n": N}


def test_one_evaluation_alone_is_shown_unmarked(tmp_path, capsys):
    assert main(["compare", str(write(tmp_path / "a", 0.5))]) == 0
    out = capsys.readouterr().out
    assert "50.0%" in out
    assert "*" not in out


def test_what_is_no_evaluation_is_refused(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    a = write(tmp_path / "a", 0.5)
    damaged = write(tmp_path / "damaged", 0.5)
    (damaged / "result.json").write_text("{")
    for folders, told in (
        (["absent"], "RUN = 'absent'"),
        ([tmp_path / "empty"], "a finished evaluation; `bilaw evaluate` makes one"),
        ([damaged], "a JSON file that is intact"),
        ([a, a], "each run once"),
    ):
        assert main(["compare", *map(str, folders)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert told in err
