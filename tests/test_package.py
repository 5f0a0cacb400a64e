"""The package as a user meets it: the README, the import, the command."""

from __future__ import annotations

import re
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import bilaw
from bilaw.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_the_readme_runs_as_it_stands() -> None:
    blocks = python_blocks(ROOT / "README.md")
    assert len(blocks) >= 3
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)


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
