"""`bilaw data` as its users meet it."""

import argparse
import gzip

import pytest
from rich.console import Console

from bilaw.cli import main
from bilaw.commands import data
from bilaw.commands.data_progress import getting
from bilaw.datasets import known as facts
from bilaw.datasets.idx import encode
from bilaw.datasets.known import File
from bilaw.datasets.verify import md5_of


def run(*words):
    parser = argparse.ArgumentParser(prog="bilaw")
    data.add_parser(parser.add_subparsers(dest="command"))
    return data.run(parser.parse_args(["data", *map(str, words)]))


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a small MNIST, which is made the known one; and a cache folder of its own."""
    import torch

    folder, files = tmp_path / "mine", []
    folder.mkdir()
    for file, shape in zip(facts.MNIST.files, [(3, 28, 28), (3,), (2, 28, 28), (2,)], strict=True):
        raw = encode(torch.ones(shape, dtype=torch.uint8))
        (folder / file.name).write_bytes(raw)
        files.append(File(file.name, len(raw), md5_of(folder / file.name)))
    known = facts.MNIST._replace(files=tuple(files), urls=("http://127.0.0.1:9/",), sources=("folder", "canonical"))
    monkeypatch.setitem(facts.KNOWN, "mnist", known)
    monkeypatch.setenv("BILAW_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return folder


def test_get_list_and_check(mine, tmp_path, capsys):
    assert run("get", "mnist", "--from", mine) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"mnist: trying {mine}"
    assert lines[1] == "mnist: got train-images-idx3-ubyte: 2,368 bytes, checksum right"
    assert lines[-1] == f"mnist: complete in {tmp_path / 'cache' / 'mnist'}, all checksums right"
    assert len(lines) == 6

    assert run("get", "mnist") == 0
    assert capsys.readouterr().out == f"mnist: already complete in {tmp_path}/cache/mnist, all checksums right\n"

    assert run("list") == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "name           train   test classes image   status   sources"
    assert lines[1] == "digits         1,347    450      10 1x8x8   here     comes with bilaw"
    assert lines[2] == "mnist         60,000 10,000      10 1x28x28 here     folder, canonical"
    assert lines[5] == "cifar-100     50,000 10,000     100 3x32x32 not here folder, canonical"
    assert lines[6] == f"cache folder: {tmp_path}/cache"

    assert run("check") == 0
    assert capsys.readouterr().out == f"mnist: right (4 files, 3,973 bytes, in {tmp_path}/cache/mnist)\n"


def test_check_names_what_is_wrong(mine, tmp_path, capsys):
    run("get", "mnist", "--from", mine)
    bad = tmp_path / "cache" / "mnist" / "t10k-labels-idx1-ubyte"
    bad.write_bytes(b"cut")
    capsys.readouterr()
    assert run("list") == 0
    assert "3 of 4" in capsys.readouterr().out
    assert run("check") == 1
    assert capsys.readouterr().err.splitlines() == [
        "mnist: t10k-labels-idx1-ubyte = '3 bytes' is not accepted; it takes 10 bytes; it was removed",
        "mnist: to put it right: bilaw data get mnist",
    ]
    assert not bad.exists()
    assert sum(path.is_file() for path in bad.parent.iterdir()) == 3
    assert run("get", "mnist", "--from", mine) == 0
    assert run("check", "mnist", "digits") == 0


def test_check_of_what_is_not_there(mine, tmp_path, capsys):
    assert run("check") == 0
    assert capsys.readouterr().out == f"no data set lies in {tmp_path}/cache; to get one: bilaw data get NAME\n"
    assert run("check", "mnist", "--root", tmp_path / "other") == 1
    error = capsys.readouterr().err
    assert "train-images-idx3-ubyte = 'no file' is not accepted" in error
    assert error.endswith(f"to put it right: bilaw data get mnist --root {tmp_path}/other\n")
    assert not (tmp_path / "cache").exists()


def test_every_failed_source_is_a_line(mine, tmp_path, capsys):
    (mine / "train-labels-idx1-ubyte").write_bytes(gzip.compress(b"other"))
    with pytest.raises(ValueError, match="mnist could not be got; what was tried:") as refused:
        run("get", "mnist", "--from", mine)
    reasons = str(refused.value).splitlines()[1:]
    assert reasons == [
        f"(1) {mine}: train-labels-idx1-ubyte = '5 bytes' is not accepted; it takes 11 bytes",
        "(2) http://127.0.0.1:9/: train-labels-idx1-ubyte.gz: Connection refused",
    ]
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("mnist: failed")] == [
        f"mnist: failed {reason[4:]}" for reason in reasons
    ]


def test_digits_need_no_getting(mine, tmp_path, capsys):
    assert run("get", "digits") == 0
    assert capsys.readouterr().out == "digits comes with bilaw: there is nothing to get\n"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("action", ["get", "check"])
def test_an_unknown_name_is_refused_with_the_nearest(action, mine):
    with pytest.raises(ValueError, match=r"data = 'cifar10' is not accepted; .*did you mean 'cifar-10'"):
        run(action, "cifar10")


@pytest.mark.parametrize(
    "words", [["data", "--help"], *(["data", name, "--help"] for name in ("get", "list", "check"))]
)
def test_the_help_fits_a_screen(words, mine, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        run(*words[1:])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)


BAD = {
    "no action": ((), "ACTION"),
    "an unknown action": (("fetch",), "fetch"),
    "no name": (("get",), "NAME"),
    "an unknown name": (("get", "minst"), "data = 'minst' is not accepted; it takes one of"),
    "an empty name": (("get", ""), "data = '' is not accepted"),
    "two names": (("get", "mnist", "digits"), "digits"),
    "an unknown source": (("get", "mnist", "--source", "ftp"), "--source = 'ftp' is not accepted; it takes one of"),
    "a source of another set": (("get", "mnist", "--source", "npm"), "--source = 'npm' is not accepted"),
    "no folder to look in": (("get", "mnist", "--source", "folder"), "it takes --from FOLDER beside it"),
    "a folder that is not there": (
        ("get", "mnist", "--from", "no/such"),
        "'no/such' is not accepted; it takes a folder",
    ),
    "an empty folder name": (("get", "mnist", "--from", ""), "--from = '' is not accepted; it takes a folder"),
    "a path for an address": (("get", "mnist", "--url", "/data"), "http:// or https://"),
    "an empty address": (("get", "mnist", "--url", ""), "--url = '' is not accepted"),
    "an address without a host": (("get", "mnist", "--url", "http://"), "could not be got"),
    "an address that is none": (("get", "mnist", "--url", "http://[x/"), "could not be got"),
    "a folder and another source": (("get", "mnist", "--from", ".", "--source", "canonical"), "--source folder"),
    "a mirror and another source": (("get", "mnist", "--url", "http://x", "--source", "folder"), "--source"),
    "a file as the cache": (("get", "mnist", "--root", __file__), "cannot write"),
    "an unknown name to check": (("check", "imagenet"), "data = 'imagenet' is not accepted"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_a_line_and_status_2_and_nothing_written(case, mine, tmp_path, capsys, monkeypatch):
    words, why = BAD[case]
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    try:
        status = main(["data", *words])
    except SystemExit as end:  # argparse's own
        status = end.code
    said = capsys.readouterr().err
    assert status == 2
    assert why in said
    assert "Traceback" not in said
    assert sorted(path for path in tmp_path.rglob("*") if path != tmp_path / "cache") == before


def test_a_terminal_gets_a_bar(tmp_path):
    with (tmp_path / "screen").open("w") as screen:
        console = Console(file=screen, force_terminal=True, width=100)
        with getting(console, "mnist") as watch:
            watch.note("trying [here]")
            watch.amount("http://example.org/train.gz", 500_000, 1_000_000)
            watch.amount("train", 7, 0)
    shown = (tmp_path / "screen").read_text()
    assert "mnist: trying [here]" in shown
    assert "train.gz" in shown
    assert "0.5 of 1.0 MB" in shown
