"""`bilaw train`: one run, from settings to a folder that explains itself."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from bilaw import runs
from bilaw.commands.progress import training_progress
from bilaw.commands.train_help import METAVARS, OPTIONS, USAGE, Help
from bilaw.config import Config
from bilaw.effects import without_effect
from bilaw.errors import Refused, look_up, refuse
from bilaw.files import LONGEST, explained, is_folder, is_name
from bilaw.recipes.methods import METHODS, names
from bilaw.settings import override, parse_file, settings, to_toml, values_of
from bilaw.training.fit import Interrupted, fit

RUNS = Path("runs")
WORD = 40  # characters of a part of a run's name


def add_parser(commands: Any) -> None:
    """Describe the command; its help is written by train_help."""
    parser = commands.add_parser(
        "train",
        help="train a classifier, with any data set, model, method and attack",
        usage=USAGE,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("-h", "--help", nargs="?", action=Help, metavar="GROUP", help="the overview, or a group")
    parser.add_argument("--method", metavar="NAME", help=OPTIONS["--method NAME"])
    parser.add_argument("--config", metavar="FILE", type=Path, help=OPTIONS["--config FILE"])
    parser.add_argument("--run", metavar="DIR", help=OPTIONS["--run DIR"])
    parser.add_argument("--resume", metavar="RUN", help=OPTIONS["--resume RUN"])
    parser.add_argument("--print-config", action="store_true", help=OPTIONS["--print-config"])
    for setting in settings().values():
        parser.add_argument(
            f"--{setting.name}", dest=setting.name, metavar=METAVARS[setting.kind], default=argparse.SUPPRESS
        )


def run(arguments: argparse.Namespace) -> int:
    """Train, or continue, and say what came of it."""
    given = {name: value for name, value in vars(arguments).items() if name in settings()}
    if arguments.resume is not None:
        return _resume(arguments, given)
    config, in_file = effective(arguments.config, arguments.method, given)
    chosen = [name for name in given if values_of(config)[name] is not None]  # auto asks for nothing
    for name, needs in without_effect(config, chosen).items():
        raise Refused(f"--{name} {given[name]} has no effect here: it takes {needs}")
    for name, needs in without_effect(config, in_file).items():
        say(f"note: {name} in {arguments.config} has no effect here: it takes {needs}", sys.stderr)
    if arguments.print_config:
        print(to_toml(config), end="")
        return 0
    with new_folder(arguments.run, config) as folder:
        return _watched(folder, config, resume=False)


def _resume(arguments: argparse.Namespace, given: dict[str, str]) -> int:
    others = [f"--{name}" for name in ("method", "config", "run") if getattr(arguments, name) is not None]
    if conflicting := [*others, *(f"--{name}" for name in given)]:
        refuse("--resume", arguments.resume, f"no {conflicting[0]} beside it: a run goes on with the settings it has")
    folder = existing_folder(arguments.resume)
    config = override(Config(), parse_file(runs.Run.open(folder).config_file))
    if arguments.print_config:
        print(to_toml(config), end="")
        return 0
    return _watched(folder, config, resume=True)


def effective(file: Path | None, method: str | None, flags: Mapping[str, str]) -> tuple[Config, list[str]]:
    """Return the settings in force, and the names of those that were chosen in the file.

    Defaults < file < method < flags.
    """
    in_file = {} if file is None else parse_file(file)
    of_method = {}
    if method is not None:
        of_method = dict(zip(("loss.name", "scheme.name"), look_up("--method", method, METHODS), strict=True))
    config = override(Config(), {**in_file, **of_method, **flags})
    # A run's own config.toml states every setting; what equals the default was not chosen there.
    values, defaults = values_of(config), values_of(Config())
    chosen = [name for name in in_file if values[name] != defaults[name]]
    return config, [name for name in chosen if name not in of_method and name not in flags]


@contextmanager
def new_folder(asked: str | None, config: Config) -> Iterator[Path]:
    """Give the run's folder, reserved (made, and empty) where bilaw names it; what stays empty is removed again.

    Runs that start at the same moment, as a loop over seeds starts them, then get a number each.
    """
    if asked is not None:
        yield _asked_folder(asked)
        return
    made_runs, stem, number = not RUNS.exists(), run_name(config), 1
    with explained(RUNS):
        RUNS.mkdir(exist_ok=True)
        while True:
            folder = RUNS / f"{stem}-{number}"
            with suppress(FileExistsError):
                folder.mkdir()
                break
            number += 1
    try:
        yield folder
    finally:
        with suppress(OSError):  # not empty: the run is in it
            folder.rmdir()
            if made_runs:
                RUNS.rmdir()


def _asked_folder(asked: str) -> Path:
    """Return the folder the user names, refusing one that holds something; nothing is made yet."""
    if not is_name(asked):
        refuse("--run", asked, f"a folder, its name in Unicode and without NUL, each part at most {LONGEST} bytes")
    folder = Path(asked)
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            refuse("--run", asked, f"a folder; {place} is a file")
    runs.check_new(folder)
    return folder


def run_name(config: Config) -> str:
    """Return data, model and method in one word.

    >>> run_name(Config())
    'digits-tiny-cnn-at'
    """
    words = (re.sub(r"[^\w.]+", "-", Path(part).stem).strip("-.") or "run" for part in names(config))
    return "-".join(word[:WORD] for word in words)


def existing_folder(asked: str) -> Path:
    """Return the folder of a run given by its path, or by its name as `bilaw runs` shows it."""
    places = [place for place in (Path(asked), RUNS / asked) if is_folder(place)] if asked else []
    return places[0] if places else refuse("--resume", asked, "the folder of a run (`bilaw runs` lists them)")


def _watched(folder: Path, config: Config, resume: bool) -> int:
    console, epochs = Console(), config.optim.epochs
    with stopping() as caught:
        try:
            with training_progress(console, folder.name, epochs, weighs=config.scheme.name != "uniform") as watch:
                watch = watch._replace(stop=lambda: bool(caught))
                result = fit(config.model.name, config.data.name, config, run=folder, resume=resume, watch=watch)
        except Interrupted as stopped:
            say(f"interrupted in epoch {stopped.epoch + 1} of {epochs}, and saved. To go on:", sys.stderr)
            say(f"  bilaw train --resume {shlex.quote(str(folder))}", sys.stderr)
            return 128 + (caught[0] if caught else signal.SIGINT)
        except KeyboardInterrupt:
            if runs.Run(folder).config_file.is_file():
                say("stopped at once. To go on from the last checkpoint:", sys.stderr)
                say(f"  bilaw train --resume {shlex.quote(str(folder))}", sys.stderr)
            raise
    best = result.best
    say(f"done: best epoch {best.epoch + 1} of {len(result.history)}")
    say(f"  on select   clean {best.clean:.1%}, PGD-{config.select.steps} {best.robust:.1%}")
    say(f"  run folder  {folder}")
    say(f"next: `bilaw runs {folder.parent}` compares runs;")
    say(f"  `bilaw train --config {runs.Run(folder).config_file}` repeats this one")
    return 0


def say(text: str, file: Any = None) -> None:
    """Print one line, as it is."""
    print(text, file=file)


@contextmanager
def stopping() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM, so that the step ends first; a SIGINT after that stops at once."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught  # only the main thread can have handlers
        return

    def handle(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        if len(caught) > 1 and number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            raise KeyboardInterrupt
        os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
