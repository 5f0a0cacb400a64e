"""A folder the user has: every layout that is about, and nothing that is wrong."""

import gzip
import re

import pytest
import sources_kit as kit

from bilaw.datasets.cache import faults
from bilaw.datasets.sources.get import chosen, get, obtain


def lay(folder, contents, ending="", spelling=str):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        (folder / (spelling(name) + ending)).write_bytes(gzip.compress(data) if ending else data)


@pytest.mark.parametrize("where", ["", "raw", "MNIST/raw", "mnist"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_every_layout_of_mnist(where, ending, tmp_path):
    known, contents = kit.small_mnist()
    lay(tmp_path / "mine" / where, contents, ending)
    obtain(known, tmp_path / "cache", folder=tmp_path / "mine", source="folder")
    assert faults(known, tmp_path / "cache") == {}


def test_the_old_spelling_and_a_mixture_of_places(tmp_path):
    known, contents = kit.small_mnist()
    pairs = list(contents.items())
    lay(tmp_path / "mine", dict(pairs[:1]), spelling=lambda name: name.replace("-idx", ".idx"))
    lay(tmp_path / "mine", dict(pairs[1:2]), ".gz")
    lay(tmp_path / "mine" / "raw", dict(pairs[2:]))
    obtain(known, tmp_path / "cache", folder=tmp_path / "mine")
    assert faults(known, tmp_path / "cache") == {}


def test_a_file_half_unpacked_beside_its_gz_is_passed_over(tmp_path):
    known, contents = kit.small_mnist()
    lay(tmp_path / "mine", contents, ".gz")
    for name, data in contents.items():
        (tmp_path / "mine" / name).write_bytes(data[:100])
    obtain(known, tmp_path / "cache", folder=tmp_path / "mine")
    assert faults(known, tmp_path / "cache") == {}


@pytest.mark.parametrize("hundred", [False, True])
@pytest.mark.parametrize("where", ["", "nested"])
def test_the_archive_of_cifar(hundred, where, tmp_path):
    known, contents = kit.small_cifar(hundred=hundred)
    place = tmp_path / "mine" / (known.layouts[0] if where else "")
    place.mkdir(parents=True)
    (place / known.archive.name).write_bytes(kit.packed(known.layouts[0], contents))
    obtain(known, tmp_path / "cache", folder=tmp_path / "mine")
    assert faults(known, tmp_path / "cache") == {}


def test_loose_files_of_cifar_10_but_not_of_cifar_100(tmp_path):
    for hundred in (False, True):
        known, contents = kit.small_cifar(hundred=hundred)
        lay(tmp_path / "mine" / known.layouts[0], contents)
        if hundred:
            with pytest.raises(ValueError, match=r"train\.bin = 'a loose file' is not accepted; it takes the archive"):
                obtain(known, tmp_path / "cache", folder=tmp_path / "mine", source="folder")
        else:
            obtain(known, tmp_path / "cache", folder=tmp_path / "mine", source="folder")
            assert faults(known, tmp_path / "cache") == {}


@pytest.mark.parametrize("lying", ["cifar-10-batches-py", "cifar-10-python.tar.gz"])
def test_pickles_are_named_and_never_loaded(lying, tmp_path):
    known, _ = kit.small_cifar()
    (tmp_path / lying).mkdir()
    with pytest.raises(
        ValueError, match=r"takes the binary version \(cifar-10-binary.*pickles can run code and are never"
    ):
        obtain(known, tmp_path / "cache", folder=tmp_path, source="folder")


def test_an_altered_file_is_refused_and_the_other_sources_give_it(tmp_path):
    known, contents = kit.small_mnist()
    altered = {name: bytes([data[0] ^ 1]) + data[1:] for name, data in contents.items()}
    lay(tmp_path / "mine", altered)
    watch, lines = kit.noted()
    with kit.serving(kit.gz_replies(contents)) as url:
        obtain(known, tmp_path / "cache", folder=tmp_path / "mine", url=url, watch=watch)
    assert faults(known, tmp_path / "cache") == {}
    first = known.files[0]
    wrong = kit.md5(altered[first.name])
    assert lines[1] == (
        f"failed {tmp_path / 'mine'}: {first.name} = 'md5 {wrong}' is not accepted; it takes md5 {first.md5}"
    )


def test_a_wrong_file_in_the_cache_is_replaced(tmp_path):
    known, contents = kit.small_mnist()
    lay(tmp_path / "mine", contents)
    folder = obtain(known, tmp_path, folder=tmp_path / "mine")
    names = list(contents)
    (folder / names[0]).write_bytes(b"short")
    (folder / names[1]).write_bytes(bytes(len(contents[names[1]])))
    watch, lines = kit.noted()
    obtain(known, tmp_path, folder=tmp_path / "mine", watch=watch)
    assert faults(known, tmp_path) == {}
    assert sum(line.startswith("removed ") for line in lines) == 2
    assert sum(line.startswith("got ") for line in lines) == 2


def test_a_wrong_file_in_the_cache_goes_even_if_nothing_better_comes(tmp_path):
    known, contents = kit.small_mnist()
    lay(tmp_path / "mnist", {name: data[:-1] for name, data in contents.items()})
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="could not be got"):
        obtain(known, tmp_path, folder=tmp_path / "empty", source="folder")
    assert not (tmp_path / "mnist").exists()


REFUSED = {
    "unknown set": (("minst", {}), "did you mean 'mnist'"),
    "unknown source": (("mnist", {"source": "canonicl"}), "did you mean 'canonical'"),
    "another set's source": (("mnist", {"source": "npm"}), "it takes one of canonical, folder, pypi"),
    "no folder": (("mnist", {"source": "folder"}), "--source = 'folder' is not accepted; it takes --from FOLDER"),
    "folder and another source": (("mnist", {"source": "pypi", "folder": "."}), "--from = '.' is not accepted"),
    "url and another source": (("mnist", {"source": "pypi", "url": "http://x"}), "--url = 'http://x'"),
    "a path as url": (("mnist", {"url": "/data"}), "http:// or https://"),
    "a file's url": (("mnist", {"url": "file:///data"}), "a folder here is --from FOLDER"),
    "a folder that is not there": (("mnist", {"folder": "no/such"}), "--from = 'no/such' is not accepted"),
    "an empty name for it": (("mnist", {"folder": ""}), "--from = '' is not accepted"),
    "a file for a folder": (("mnist", {"folder": "/dev/null"}), "--from = '/dev/null' is not accepted"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_choices_that_cannot_be_are_refused_before_anything_is_written(case, tmp_path):
    (name, options), why = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(why)):
        get(name, tmp_path / "cache", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_order_of_the_sources():
    known = kit.MNIST
    assert chosen(known, "mine", None, None) == ("folder", "canonical", "pypi")
    assert chosen(known, "mine", "folder", None) == ("folder",)
    assert chosen(known, None, None, "http://x") == ("canonical", "pypi")
