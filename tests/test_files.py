"""Files are there whole or not at all."""

import os
import stat

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from bilaw import files


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    target = tmp_path / "it"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), files.replacing(target) as part:
        part.write_text(f"half {1 / 0}" if part.write_text("half") else "")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_equal_tensors_are_equal_files_whatever_order_they_are_told_about_in(tmp_path):
    about = {f"é{i}": "\u2028" * i for i in range(12)}
    for place, names in enumerate((about, reversed(about), sorted(about, key=hash))):
        tensors = {"a": torch.arange(3.0), "b": torch.tensor([True])}
        files.write_tensors(tmp_path / str(place), tensors, {name: about[name] for name in names})
    one, *others = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    assert others == [one, one]
    with safe_open(tmp_path / "0", framework="pt") as held:
        assert held.metadata() == about
    assert load_file(tmp_path / "0")["a"].tolist() == [0, 1, 2]


def test_the_file_is_on_the_disk_before_it_takes_its_name_and_the_name_after(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, type(tmp_path).replace

    def synced(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def replaced(path, to):
        done.append("rename")
        return replace(path, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(type(tmp_path), "replace", replaced)
    files.write_text(tmp_path / "it", "new")
    assert done == ["file", "rename", "folder"]
    files.append(tmp_path / "it", b"more")
    assert done[3:] == ["file"]
    assert (tmp_path / "it").read_text() == "newmore"


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_any_new_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        files.write_text(tmp_path / "ours", "")
        (tmp_path / "any").write_text("")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "any")]
    assert modes[0] == modes[1]


def test_tensors_that_share_memory_or_have_strides_are_written(tmp_path):
    base = torch.arange(6.0).view(2, 3)
    files.write_tensors(tmp_path / "t", {"a": base, "b": base, "c": base.t(), "d": base[:, 0]}, {"who": "me"})
    held = load_file(tmp_path / "t")
    assert torch.equal(held["c"], base.t())
    assert torch.equal(held["d"], base[:, 0])


def test_an_error_says_which_file_and_keeps_its_kind(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot write .*absent.*: No such file"):
        files.write_text(tmp_path / "absent" / "it", "")
    with pytest.raises(IsADirectoryError, match=f"cannot write {tmp_path}: Is a directory"):
        files.append(tmp_path, b"")
    both = files.explained("outer"), files.explained("inner")
    with pytest.raises(OSError, match=r"cannot write inner: No space left on device$"), both[0], both[1]:
        raise OSError(28, "No space left on device")
