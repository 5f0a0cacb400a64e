"""A process that forks the lives of runs, one for all tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


class Zygote:
    """Our end of zygote.py."""

    def __init__(self, folder):
        self.folder, self.log = folder, folder / "log"
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            cwd=folder,
        )

    def ask(self, do, kill=None, **values):
        job = {"do": do, "kill": kill, "with": values, "log": str(self.log)}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def fit(self, run, settings, kill=None, **more):
        """Run, or go on where there is a run already; return the exit status."""
        resume = run.exists()
        return self.ask("fit", kill, run=str(run), resume=resume, settings=settings, out=f"{run}.safetensors", **more)

    def said(self):
        return self.log.read_text() if self.log.exists() else ""

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def zygote(tmp_path_factory):
    made = Zygote(tmp_path_factory.mktemp("zygote"))
    yield made
    made.close()
