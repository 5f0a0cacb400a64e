"""Progress: plain lines where nobody looks, a bar that keeps to its lines where somebody does."""

from __future__ import annotations

import io
import math
import re

import pytest
from rich.console import Console

from bilaw.commands import progress
from bilaw.commands.evaluate_progress import evaluation_progress
from bilaw.commands.progress import Clock, training_progress
from bilaw.training.watch import Epoch

JUDGED = Epoch(1, 0.1, 1.2345, 0.9, 0.8123, 0.5123, math.nan)
UNJUDGED = Epoch(2, 0.1, 1.1, 0.85, math.nan, math.nan, math.nan)
TITLE = "cifar-10-wrn-32-10-bilaw-trades-12"


def clock_at(*moments: float) -> Clock:
    times = iter(moments)
    return Clock(lambda: next(times))


def test_nothing_is_known_of_the_time_left_before_two_steps() -> None:
    clock = clock_at(5.0)
    assert clock.left() == "?"
    clock.tick(1, 10)
    assert clock.left() == "?"


@pytest.mark.parametrize(
    ("seconds", "done", "total", "left"),
    [
        (2.0, 3, 10, "0:07"),
        (1.0, 2, 2, "0:00"),
        (100.0, 11, 51, "6:40"),
        (3600.0, 2, 4, "2:00:00"),
        (0.1, 2, 3, "0:01"),
    ],
)
def test_the_time_left_is_the_pace_times_the_steps_left(seconds: float, done: int, total: int, left: str) -> None:
    clock = clock_at(100.0, 100.0 + seconds)
    clock.tick(1, total)
    clock.tick(done, total)
    assert clock.left() == left


def test_a_resumed_run_is_timed_by_its_own_steps() -> None:
    clock = clock_at(0.0, 2.0)
    clock.tick(901, 1000)
    clock.tick(903, 1000)
    assert clock.left() == "1:37"


def test_a_run_that_is_rolled_back_is_timed_anew() -> None:
    clock = clock_at(0.0, 100.0, 101.0)
    clock.tick(50, 100)
    clock.tick(20, 100)
    clock.tick(21, 100)
    assert clock.left() == "1:19"


def plain(weighs: bool = True) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=20), out  # a pipe has no width to keep to


@pytest.mark.parametrize("weighs", [True, False])
def test_off_a_terminal_there_is_one_line_an_epoch_and_one_a_note(weighs: bool) -> None:
    console, out = plain()
    with training_progress(console, TITLE, 3, weighs=weighs) as watch:
        watch.step(1, 3)
        watch.note("[bold] is no markup here, and " + 50 * "long ")
        for done, epoch in ((2, JUDGED), (3, UNJUDGED)):
            watch.step(done, 3)
            watch.epoch(epoch)
    note, first, second = out.getvalue().splitlines()
    ess = ("  ESS 90%", "  ESS 85%") if weighs else ("", "")
    assert note.startswith("note: [bold] is no markup here, and long long")
    assert re.fullmatch(rf"{TITLE}: epoch 2/3  loss 1.234  clean 81.2%  PGD 51.2%{ess[0]}  0:0\d left", first), first
    assert second == f"{TITLE}: epoch 3/3  loss 1.100{ess[1]}"
    assert "\x1b" not in out.getvalue()


def test_long_epochs_say_where_they_are_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    console, out = plain()
    with training_progress(console, "run", 3) as watch:
        watch.step(1, 30)
        watch.step(2, 30)
    first, second = out.getvalue().splitlines()
    assert first == "run: step 1/30  ? left"
    assert re.fullmatch(r"run: step 2/30  0:0\d left", second)


def drawn(out: str) -> list[str]:
    """Return the lines of all frames, without colours and the moves of the cursor between them."""
    text = re.sub(r"\r|\x1b\[[\d;?]*[A-Zhl]", "\n", re.sub(r"\x1b\[[\d;]*m", "", out))
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("width", [10, 20, 40, 60, 80, 120])
def test_the_bar_keeps_to_two_lines_whatever_the_width(width: int) -> None:
    out = io.StringIO()
    with training_progress(Console(force_terminal=True, width=width, file=out), TITLE, 110) as watch:
        watch.step(42_100, 42_900)
        watch.step(42_101, 42_900)
        watch.epoch(JUDGED)
    shown = drawn(out.getvalue())
    assert max(map(len, shown)) <= width
    bar, epoch = shown[-2:]
    assert epoch.startswith("epoch 2/110"[: width - 1])
    if width >= 40:
        assert "42101/42900" in bar
        assert re.search(r"0:\d\d left", bar)
    assert ("━" in bar) is (width >= 60)
    if width >= 80:
        assert epoch.rstrip() == "epoch 2/110  loss 1.234  clean 81.2%  PGD 51.2%  ESS 90%"


def test_notes_stand_above_the_bar_and_are_whole() -> None:
    console = Console(force_terminal=True, width=40, file=io.StringIO(), record=True)
    text = " ".join(f"word{i}" for i in range(30))
    with training_progress(console, "run", 2) as watch:
        watch.note(text)
    assert f"note: {text}" in console.export_text()


def test_a_terminal_of_ascii_gets_a_bar_of_ascii() -> None:
    held = io.BytesIO()
    with io.TextIOWrapper(held, encoding="ascii") as out:
        console = Console(force_terminal=True, width=80, file=out)
        with training_progress(console, "run", 2) as watch:
            watch.step(1, 4)
            watch.step(2, 4)
            watch.epoch(JUDGED)
        out.flush()
        assert b"2/4" in held.getvalue()


def test_an_evaluation_has_a_bar_on_a_terminal_and_says_each_accuracy_once_known() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with evaluation_progress(console, "a[b]c") as watch:
        watch.work(10, 100)
        watch.work(50, 100)
        watch.suite("pgd-2", 0.5, 40)
        watch.note("[red]look")
    text = out.getvalue()
    assert all(
        part in text for part in ("a[b]c", "50%", " left", "pgd-2: 50.00% of 40, not audited yet", "note: [red]look")
    )


def test_an_evaluation_elsewhere_is_a_line_an_attack() -> None:
    out = io.StringIO()
    with evaluation_progress(Console(file=out, width=20), "a[b]c") as watch:
        watch.work(10, 100)
        watch.suite("weight-aware-20:runs/[a]", 0.5, 40)
    assert out.getvalue() == "weight-aware-20:runs/[a]: 50.00% of 40, not audited yet\n"
    with evaluation_progress(Console(file=out), "again", quiet=True) as watch:
        watch.work(10, 100)
    assert "again" not in out.getvalue()
