"""The cache folder: where it is, and that nothing altered comes out of it."""

from pathlib import Path

import pytest
import sources_kit as kit

from bilaw.datasets.cache import VARIABLE, content, faults, folder_of, is_complete, root_folder


@pytest.fixture
def cached(tmp_path):
    known, contents = kit.small_mnist()
    folder_of(known, tmp_path).mkdir()
    for name, data in contents.items():
        (folder_of(known, tmp_path) / name).write_bytes(data)
    return known, contents, tmp_path


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert root_folder() == tmp_path
    assert root_folder("~/x") == Path.home() / "x"
    monkeypatch.delenv(VARIABLE)
    assert "bilaw" in root_folder().parts


def test_the_content_is_handed_out_in_order(cached):
    known, contents, root = cached
    assert [bytes(raw) for raw in content(known, root)] == list(contents.values())
    assert is_complete(known, root)
    assert faults(known, root) == {}


@pytest.mark.parametrize("harm", ["cut", "longer", "altered", "empty"])
def test_nothing_altered_comes_out(harm, cached):
    known, contents, root = cached
    name = known.files[2].name
    data = contents[name]
    harmed = {"cut": data[:-1], "longer": data + b"x", "altered": data[:-1] + b"x", "empty": b""}[harm]
    (folder_of(known, root) / name).write_bytes(harmed)
    with pytest.raises(
        ValueError, match=rf"{name}' = .* to replace it: bilaw data get mnist --root|{name} = "
    ) as refused:
        content(known, root)
    assert f"bilaw data get mnist --root {root}" in str(refused.value)
    assert list(faults(known, root)) == [name]


def test_what_is_not_there_names_the_command(tmp_path, cached):
    known, _, root = cached
    (folder_of(known, root) / known.files[0].name).unlink()
    assert not is_complete(known, root)
    with pytest.raises(ValueError, match=r"data = 'mnist' is not accepted; .* to get it: bilaw data get mnist --root"):
        content(known, root)
