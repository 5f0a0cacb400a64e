"""The page as a file: its size, what it holds, whom it trusts."""

import json
import re
import zlib
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
from report_kit import HTML

from bilaw.cli import main
from bilaw.report import sprites
from bilaw.report.embed import Columns, as_json
from bilaw.report.page import check_out, page


def blocks(text):
    found = re.findall(r'<script type="text/plain" id="([^"]+)">([A-Za-z0-9+/=]*)</script>', text)
    return {name: b64decode(held) for name, held in found}


def facts_of(text):
    return json.loads(zlib.decompress(blocks(text)["facts"]))


def column(about, data, name):
    held = next(one for one in about if one["name"] == name)
    return np.frombuffer(zlib.decompress(data), held["kind"], held["count"], held["at"])


def test_a_page_holds_everything_and_asks_for_nothing(pair):
    text = page(pair)
    assert len(text.encode()) < 6e6
    shell = re.sub(r'<script type="text/plain".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"(?:src|href)=[\"']?(?!#|data:,)\w", shell.split("<script>")[0])
    assert "default-src 'none'" in shell
    assert set(blocks(text)) >= {"plotly", "facts", "pool-0", "run-0", "run-1", "clean-0", "change-0", "change-1"}


def test_columns_are_what_is_known_of_each_sample(pair):
    text = page(pair)
    facts, held = facts_of(text), blocks(text)
    for i, one in enumerate(pair):
        about, data = facts["runs"][i]["columns"], held[f"run-{i}"]
        assert column(about, data, "adversarial").tolist() == one.seen.logits_adv.argmax(1).tolist()
        verdict = one.verdicts["pgd-5"]
        expected = np.where(verdict.by == -2, 2, verdict.robust.astype(int))
        assert column(about, data, "verdict pgd-5").tolist() == expected.tolist()
        assert ("weight" in [c["name"] for c in about]) == (i == 0)
    assert column(facts["runs"][0]["columns"], held["run-0"], "weight") == pytest.approx(pair[0].weight)
    assert column(facts["pools"][0]["columns"], held["pool-0"], "y").tolist() == pair[0].seen.y.tolist()


def test_runs_on_other_samples_share_a_pool_and_are_unknown_where_they_were_not(pair):
    few = pair[1].seen
    cut = {
        name: getattr(few, name)[50:120]
        for name in ("place", "y", "logits", "logits_adv", "survived", "change", "size")
    }
    other = replace(pair[1], name="few", probe=few._replace(**cut), images=pair[1].images[50:120])
    text = page([pair[0], other])
    facts = facts_of(text)
    assert [pool["n"] for pool in facts["pools"]] == [200]
    known = column(facts["runs"][1]["columns"], blocks(text)["run-1"], "known")
    assert np.flatnonzero(known).tolist() == list(range(50, 120))


def test_names_reach_the_page_packed_or_escaped(pair):
    text = page([replace(one, name=f"{HTML}{i}") for i, one in enumerate(pair)])
    assert HTML not in text
    assert "&lt;img src=x onerror=&quot;" in text
    assert facts_of(text)["runs"][0]["name"] == f"{HTML}0"


def test_pictures_fill_what_room_there_is(pair):
    large, small = page(pair, 6.0), page(pair, 2.1)
    assert len(small.encode()) <= 2.1e6 + 1e5
    count = facts_of(large)["pools"][0]["sheet"]["count"]
    assert count == 200
    assert facts_of(small)["pools"][0].get("sheet", {"count": 0})["count"] < count


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 5), (4, 150, 130), (2, 3, 3)])
def test_a_sheet_holds_each_picture_in_its_place(shape):
    images = np.random.default_rng(0).random((23, *shape)).astype(np.float32)
    small = sprites.thumbnails(images)
    assert max(small.shape[1:3]) <= 64
    sheet = sprites.clean_sheet(images, 1e6)
    from io import BytesIO

    from PIL import Image

    held = np.asarray(Image.open(BytesIO(sheet.data)).convert("L"), dtype=float)
    high, wide = sheet.side
    for i in (0, 7, 22):
        at = held[i // sheet.columns * high :, i % sheet.columns * wide :][:high, :wide]
        own = np.asarray(Image.fromarray(small[i].squeeze()).convert("L"), dtype=float)
        far = np.asarray(Image.fromarray(small[(i + 5) % 23].squeeze()).convert("L"), dtype=float)
        assert np.abs(at - own).mean() < np.abs(at - far).mean()
    assert sheet.rows.tolist() == list(range(23))


def test_few_bytes_mean_fewer_levels_then_fewer_samples_the_first_of_the_order():
    changes = np.sign(np.random.default_rng(0).normal(size=(300, 1, 20, 20))).astype(np.float32)
    order = np.arange(300)[::-1]
    whole = sprites.change_sheet(changes, order, 1e6)
    assert (whole.levels, len(whole.rows)) == (7, 300)
    few = sprites.change_sheet(changes, order, len(whole.data) / 4)
    assert few.levels == 3
    assert few.rows.tolist() == order[: len(few.rows)].tolist()
    assert 30 < len(few.rows) < 120
    assert len(sprites.change_sheet(changes, order, 10).rows) == 0


def test_columns_begin_where_typed_arrays_may():
    made = Columns()
    made.add("a", [1, 2, 3], "uint8")
    made.add("b", [0.5], "float32")
    assert [one["at"] for one in made.about] == [0, 8]
    assert np.frombuffer(made.data, "<f4", 1, 8).tolist() == [0.5]


def test_json_has_no_numbers_that_are_none():
    assert as_json({"a": np.array([np.inf, 1.0]), "b": (None, True)}) == b'{"a":[null,1.0],"b":[null,true]}'


def test_only_a_page_of_ours_is_written_over(tmp_path):
    mine = tmp_path / "mine.html"
    mine.write_text("<html>precious</html>")
    for path in (mine, tmp_path, tmp_path / "report.txt"):
        with pytest.raises(ValueError, match="--out"):
            check_out(path)
    (tmp_path / "ours.html").write_text(page_head())
    check_out(tmp_path / "ours.html")
    check_out(tmp_path / "new.html")


def page_head():
    return '<!doctype html>\n<meta name="generator" content="bilaw 0.1.0">'


def test_the_command_writes_a_page_and_figures_beside_it(pair, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folders = [str(one.run.path) for one in pair]
    assert main(["report", *folders, "--figures", "svg", "--out", "here/r.html", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert (tmp_path / "here" / "r.html").stat().st_size < 6e6
    drawn = {path.name for path in (tmp_path / "here" / "r-figures").iterdir()}
    assert {"ranks.svg", "comparison.svg", "learned-schemes.svg", "even-confusion.svg"} <= drawn
    assert "even-schemes.svg" not in drawn
    assert f"{len(drawn)} figures" in out
    assert main(["report", folders[0], "--out", "here/r.html"]) == 0  # over the earlier one


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "RUN = 'nowhere'"),
        (["RUN", "RUN"], "each run once"),
        (["RUN", "--out", "r.txt"], "--out = 'r.txt'"),
        (["RUN", "--figures", "bmp"], "--figures = 'bmp'"),
        (["RUN", "--size", "1"], "--size = '1'"),
        (["RUN", "--size", "nan"], "--size = 'nan'"),
        (["RUN", "--samples", "0"], "--samples = '0'"),
    ],
)
def test_what_the_command_does_not_accept(arguments, told, pair, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = str(pair[0].run.path)
    assert main(["report", *(run if word == "RUN" else word for word in arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert told in err
    assert not list(tmp_path.iterdir())


def test_without_its_packages_the_command_names_the_extra(monkeypatch, capsys):
    import bilaw.commands.report

    monkeypatch.setattr(bilaw.commands.report, "NEEDED", ("no_such_package",))
    assert main(["report", "anything"]) == 2
    assert "pip install 'bilaw[report]'" in capsys.readouterr().err
