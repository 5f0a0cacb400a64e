"""Memory kept between passes: in processes of our own, and nowhere else."""

import json
import os
import platform
import subprocess
import sys

import pytest

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
