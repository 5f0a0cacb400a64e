"""The cache folder: where it is, and that nothing altered comes out of it."""

from pathlib import Path

import pytest
import sources_kit as kit

from bilaw.datasets.cache import VARIABLE, content, discard, faults, folder_of, is_complete, root_folder


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
    assert list(faults(known, root)) == [name]
    again = rf"; it was removed; to get it again: bilaw data get mnist --root {root}$"
    with pytest.raises(ValueError, match=rf"{name} = '.*' is not accepted; it takes (md5 \w+|\d+ bytes){again}"):
        content(known, root)
    here = folder_of(known, root)
    assert {path.name for path in here.iterdir()} == contents.keys() - {name}
    (here / name).write_bytes(data)
    assert len(content(known, root)) == 4


def test_a_link_is_removed_and_what_it_points_to_is_not(cached, tmp_path):
    known, _, root = cached
    name, elsewhere = known.files[0].name, tmp_path / "elsewhere"
    elsewhere.write_bytes(b"mine")
    (folder_of(known, root) / name).unlink()
    (folder_of(known, root) / name).symlink_to(elsewhere)
    assert faults(known, root, remove=True)[name].endswith("; it was removed")
    assert elsewhere.read_bytes() == b"mine"
    assert not (folder_of(known, root) / name).is_symlink()


def test_nothing_is_removed_from_a_folder_that_is_a_link(cached, tmp_path):
    known, _, root = cached
    bad = folder_of(known, root) / known.files[0].name
    bad.write_bytes(b"mine")
    (tmp_path / "other").mkdir()
    folder_of(known, tmp_path / "other").symlink_to(folder_of(known, root))
    with pytest.raises(ValueError, match=r"left where it is, for .* is a link; to get it again"):
        content(known, tmp_path / "other")
    assert bad.read_bytes() == b"mine"


def test_what_cannot_be_removed_is_said_and_what_is_not_known_to_be_wrong_stays(cached, monkeypatch):
    known, _, root = cached
    path, file = folder_of(known, root) / known.files[0].name, known.files[0]
    assert discard(path, file._replace(md5=None)) == ""
    assert discard(path.with_name("absent"), file) == ""
    assert path.exists()
    path.write_bytes(b"cut")

    def locked(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", locked)
    with pytest.raises(ValueError, match=r"it could not be removed \(Permission denied\); to get it again"):
        content(known, root)


def test_what_is_not_there_names_the_command(tmp_path, cached):
    known, _, root = cached
    (folder_of(known, root) / known.files[0].name).unlink()
    assert not is_complete(known, root)
    with pytest.raises(ValueError, match=r"data = 'mnist' is not accepted; .* to get it: bilaw data get mnist --root"):
        content(known, root)
