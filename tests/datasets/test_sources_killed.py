"""Processes that are killed, that race, and disks that refuse."""

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import sources_kit as kit

from bilaw.datasets.cache import faults
from bilaw.datasets.sources.get import STALE, obtain

GET = """
import sys
sys.path.insert(0, sys.argv[3])
import sources_kit as kit
from bilaw.datasets.sources.get import obtain
for turn in range(int(sys.argv[4])):
    obtain(kit.small_mnist((sys.argv[2],))[0], f"{sys.argv[1]}/{turn}", source="canonical")
"""


def getting(root, url, turns=1):
    here = str(Path(__file__).parent)
    return subprocess.Popen([sys.executable, "-c", GET, str(root), url, here, str(turns)], stderr=subprocess.PIPE)


def test_a_killed_download_leaves_nothing_that_is_used(tmp_path):
    known, contents = kit.small_mnist()
    good, second, reached = kit.gz_replies(contents), known.files[1].name, threading.Event()
    with kit.serving({**good, f"/{second}.gz": kit.stalling(b"\x1f\x8b", reached)}) as url:
        process = getting(tmp_path, url)
        assert reached.wait(30)
        process.kill()
        process.communicate()
    folder = tmp_path / "0" / "mnist"
    left = list(folder.glob(".*.part"))
    assert len(left) == 1
    assert set(faults(known, tmp_path / "0")) == {file.name for file in known.files[1:]}
    assert {path.name for path in folder.iterdir() if path not in left} == {known.files[0].name}
    with kit.serving(good) as url:
        obtain(known, tmp_path / "0", url=url)
        assert list(folder.glob(".*.part")) == left  # it might be another process's
        os.utime(left[0], (time.time() - STALE - 60,) * 2)
        obtain(known, tmp_path / "0", url=url)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


def test_two_processes_may_get_the_same_set_at_once(tmp_path):
    contents = kit.small_mnist()[1]
    with kit.serving(kit.gz_replies(contents)) as url:
        processes = [getting(tmp_path, url, turns=8) for _ in range(2)]
        for process in processes:
            _, error = process.communicate(timeout=60)
            assert (process.returncode, error) == (0, b"")
    for turn in range(8):
        folder = tmp_path / str(turn) / "mnist"
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


def test_another_processs_file_may_vanish_while_one_looks(tmp_path):
    known, contents = kit.small_mnist()
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / ".gone.part").symlink_to("nowhere")
    with kit.serving(kit.gz_replies(contents)) as url:
        obtain(known, tmp_path, url=url)
    assert faults(known, tmp_path) == {}


def test_two_threads_may_get_a_set_whose_checksums_are_written_down(tmp_path):
    known, contents = kit.small_cifar(hundred=True)
    (tmp_path / known.archive.name).write_bytes(kit.packed(known.layouts[0], contents))
    threads = [threading.Thread(target=obtain, args=(known, tmp_path / "c"), kwargs={"folder": tmp_path}) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults(known, tmp_path / "c") == {}


@contextmanager
def nobody():
    """Drop root's power to write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared():
    """A folder anyone may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_folder_that_cannot_be_written_ends_it_at_once(shared):
    asked = []
    known, contents = kit.small_mnist()
    shared.chmod(0o555)
    with kit.serving(kit.gz_replies(contents), asked) as url, nobody():
        with pytest.raises(ValueError, match=rf"^cannot write {shared}/mnist: Permission denied$"):
            obtain(known, shared, url=url)
        with pytest.raises(ValueError, match=r"cannot write .*: Not a directory"):
            obtain(known, Path(__file__) / "below", url=url)
    assert asked == []


def test_a_folder_that_became_read_only_is_not_the_sources_fault(shared):
    known, contents = kit.small_mnist()
    (shared / "mnist").mkdir()
    (shared / "mnist").chmod(0o555)
    with (
        kit.serving(kit.gz_replies(contents)) as url,
        nobody(),
        pytest.raises(ValueError, match=rf"^cannot write {shared}/mnist: Permission denied$"),
    ):
        obtain(known, shared, url=url)


@contextmanager
def room_for(size):
    """Let no file grow past `size`, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("source", ["canonical", "folder"])
def test_a_full_disk_ends_it_at_once_and_leaves_nothing(source, tmp_path):
    known, contents = kit.small_mnist()
    asked = []
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    with kit.serving(kit.gz_replies(contents), asked) as url:
        where = {"url": url} if source == "canonical" else {"folder": tmp_path}
        with room_for(9_000), pytest.raises(ValueError, match=r"^cannot write .*: File too large$"):
            obtain(known._replace(urls=(url,)), tmp_path / "cache", **where)
    assert len(asked) == (source == "canonical")
    assert not list(tmp_path.rglob("*.part"))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
