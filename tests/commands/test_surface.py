"""The command line as a whole: what it offers is frozen, and its help fits a screen."""

from __future__ import annotations

import subprocess
import sys

import pytest
from surface import FROZEN, surface

from bilaw.cli import main
from bilaw.commands.train_help import group_help, overview
from bilaw.settings import Setting, accepted, groups, settings

SCREEN = (24, 80)  # lines, columns


def test_the_command_line_is_the_frozen_one() -> None:
    frozen = FROZEN.read_text(encoding="utf-8")
    assert surface() == frozen, "the command line has changed; if it was meant to: python tests/surface.py"


@pytest.mark.parametrize("group", ["", *filter(None, groups())])
def test_each_help_of_train_fits_a_screen(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "--help", group])
    lines = capsys.readouterr().out.splitlines()
    assert stop.value.code == 0
    assert len(lines) <= SCREEN[0]
    assert max(map(len, lines)) <= SCREEN[1]


def test_help_all_is_every_screen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "-h", "all"])
    out = capsys.readouterr().out
    assert all(screen in out for screen in (overview(), *(group_help(name) for name in groups() if name)))


@pytest.mark.parametrize("setting", settings().values(), ids=settings())
def test_every_setting_is_explained(setting: Setting) -> None:
    group = setting.name.rpartition(".")[0]
    shown = group_help(group) if group else overview()
    assert len(setting.meaning) > 10
    assert " ".join(setting.meaning.split()) in " ".join(shown.split())
    assert f"--{setting.name} " in shown
    assert "default: " in shown
    assert accepted(setting)


def test_what_auto_means_is_said_of_every_setting_that_takes_it() -> None:
    silent = [setting.name for setting in settings().values() if setting.auto and "(auto: " not in setting.meaning]
    assert silent == ["scheme.network"]  # auto stands for no network there


@pytest.mark.parametrize("command", ["demo", "data", "train", "evaluate", "compare", "report", "runs"])
def test_every_command_has_a_help_that_fits_a_screen(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main([command, "-h"])
    lines = capsys.readouterr().out.splitlines()
    assert stop.value.code == 0
    assert len(lines) <= SCREEN[0]


def test_bilaw_alone_shows_its_commands_and_ends_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(command in err for command in ("demo", "data", "train", "evaluate", "compare", "report", "runs"))


def test_with_its_outputs_closed_a_command_does_its_work() -> None:
    script = 'exec "$0" -m bilaw.cli train --print-config >&- 2>&-'
    assert subprocess.run(["sh", "-c", script, sys.executable]).returncode == 0


def test_ctrl_c_ends_any_command_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("bilaw.commands.runs.run", stop)
    assert main(["runs"]) == 130
    assert capsys.readouterr().err == "bilaw: stopped\n"
