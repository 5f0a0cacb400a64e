"""Memory kept between passes: in processes of our own, and nowhere else."""

import json
import os
import platform
import subprocess
import sys

import pytest

from bilaw import memory

FAULTS = """
import json, resource, sys, torch
from bilaw.memory import keep_freed
kept = keep_freed() if sys.argv[1] == "keep" else None
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(12_000_000).add_(1)  # 48 MB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(json.dumps([kept, faults()]))
"""
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}


def measured(word, **more):
    command = [sys.executable, "-c", FAULTS, word]
    return json.loads(subprocess.run(command, env=PLAIN | more, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are glibc's")
def test_what_is_freed_is_not_faulted_in_again():
    (kept, with_it), (_, without) = measured("keep"), measured("leave")
    assert kept
    assert with_it < without / 10


def test_the_users_own_settings_are_left_alone():
    assert measured("keep", MALLOC_ARENA_MAX="2")[0] is False
    assert measured("keep", GLIBC_TUNABLES="glibc.malloc.check=0")[0] is False


@pytest.mark.parametrize(("accepted", "sizes"), [(2**31, [2_000_000_000]), (2**25, [2_000_000_000, 2**25])])
def test_the_threshold_is_as_high_as_the_library_lets_it_be(monkeypatch, accepted, sizes):
    """Alone, the other setting would end glibc's own adjustment, and large blocks be mapped each time."""
    asked = []

    class Library:
        @staticmethod
        def mallopt(name, value):
            asked.append((name, value))
            return int(name == memory.TRIM_THRESHOLD or value <= accepted)

    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: Library)
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("glibc", "2.31"))
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    assert memory.keep_freed()
    assert asked == [(memory.MMAP_THRESHOLD, size) for size in sizes] + [(memory.TRIM_THRESHOLD, 2_000_000_000)]


def test_where_the_threshold_is_refused_the_other_is_left_alone(monkeypatch):
    asked = []
    library = type("Library", (), {"mallopt": staticmethod(lambda name, value: asked.append(name) or 0)})
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("glibc", "2.17"))
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    assert not memory.keep_freed()
    assert set(asked) == {memory.MMAP_THRESHOLD}
