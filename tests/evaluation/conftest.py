import json
import os
import subprocess
import sys
from pathlib import Path

import evaluation_kit
import pytest
from safetensors.torch import save_file


@pytest.fixture(scope="session")
def honest():
    """Trained once; nobody may change it."""
    return evaluation_kit.train()


@pytest.fixture
def cheap(monkeypatch):
    evaluation_kit.make_cheap(monkeypatch.setattr)


class Zygote:
    """Our end of evaluation_zygote.py."""

    def __init__(self, folder):
        self.log, self.weights = folder / "log", folder / "weights.safetensors"
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(Path(__file__).with_name("evaluation_zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            cwd=folder,
        )

    def ask(self, do, kill=None, after=None, slow=None, **values):
        job = {"do": do, "kill": kill, "after": after, "slow": slow, "with": values, "log": str(self.log)}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def evaluate(self, out, **more):
        return self.ask("evaluate", out=str(out), weights=str(self.weights), **more)

    def said(self):
        return self.log.read_text()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def zygote(tmp_path_factory, honest):
    made = Zygote(tmp_path_factory.mktemp("zygote"))
    save_file({name: value.clone() for name, value in honest.state_dict().items()}, made.weights)
    yield made
    made.close()
