"""The package as a user meets it: the README, the import, the command."""

from __future__ import annotations

import re
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import bilaw.commands.runs
from bilaw.cli import main
from bilaw.config import Config
from bilaw.runs import Run
from bilaw.settings import override

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize(
    ("page", "least"), [("README.md", 3), ("docs/training.md", 2), ("docs/evaluation.md", 1), ("docs/report.md", 1)]
)
def test_the_pages_run_as_they_stand(page: str, least: int) -> None:
    blocks = python_blocks(ROOT / page)
    assert len(blocks) >= least
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)


def test_the_heaviest_samples_are_found_as_the_guide_says(tmp_path: Path) -> None:
    namespace: dict[str, Any] = {}
    exec(python_blocks(ROOT / "docs" / "training.md")[0], namespace)
    config = override(Config(), {"scheme.name": "wmmr", "optim.epochs": "1", "log.to": "none", "attack.steps": "1"})
    bilaw.fit("fc1", "digits", config, run=tmp_path / "run")
    places = namespace["heaviest"](tmp_path / "run", 3)
    run = Run(tmp_path / "run")
    weights = run.weights()[2][-1, 0]
    assert sorted(run.splits()["train"].tolist().index(place) for place in places.tolist()) == sorted(
        weights.argsort()[-3:].tolist()
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_the_pages_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
    for target in re.findall(r"`(src/[\w./]+)`", page.read_text()):
        assert (ROOT / target).exists(), target


def test_importing_bilaw_costs_less_than_half_as_much_again_as_torch() -> None:
    """In processor time, which a busy machine does not stretch as it does the clock's."""

    def seconds(module: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds("bilaw")  # byte-compiles, and warms the disk cache
    ratio = statistics.median(seconds("bilaw") / seconds("torch") for _ in range(3))
    assert ratio < 1.5, f"import bilaw takes {ratio:.2f} times as long as import torch"


def test_the_version_is_that_of_the_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"bilaw {bilaw.__version__}\n"
    assert f'version = "{bilaw.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_the_demo_trains_all_four_methods_and_prints_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--epochs", "1"]) == 0
    out = capsys.readouterr().out
    for title in ("AT", "TRADES", "BiLAW", "BiLAW-TRADES"):
        assert re.search(rf"│ {title} +│ +[\d.]+%  \[[\d.]+%, [\d.]+%\] │ +[\d.]+%  \[", out), out
    for column, name in enumerate(("clean", "PGD-20")):
        rows = [re.findall(r"\[([\d.]+)%, ([\d.]+)%\]", line) for line in out.splitlines() if line.startswith("│")]
        ends = [(float(row[column][0]), float(row[column][1])) for row in rows]
        overlap = max(low for low, _ in ends) <= min(high for _, high in ends)
        assert (f"{name}: all intervals overlap" in out) is overlap


@pytest.mark.parametrize("arguments", [["demo", "--epochs", "0"], ["demo", "--seed", "-1"], ["dmo"], ["demo", "--x"]])
def test_bad_arguments_end_with_status_2_and_name_what_is_wrong(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = main(arguments)
    except SystemExit as stop:  # how argparse ends
        status = stop.code
    assert status == 2
    assert arguments[-1] in capsys.readouterr().err


def test_a_refusal_on_the_command_line_shows_no_traceback() -> None:
    ended = subprocess.run([sys.executable, "-m", "bilaw.cli", "demo", "--epochs", "0"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr == "bilaw: optim.epochs = 0 is not accepted; it takes a whole number >= 1\n"


def test_a_device_without_room_ends_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: object) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has ...")

    monkeypatch.setattr(bilaw.commands.runs, "run", run)
    assert main(["runs"]) == 1
    assert capsys.readouterr().err == (
        "bilaw: CUDA out of memory. Tried to allocate 2.00 GiB. "
        "Lower optim.batch (and meta.batch), or choose a smaller model\n"
    )
