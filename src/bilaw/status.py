"""Where a run stands, as one JSON file says it, and the lock of whoever is at work on it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from bilaw.errors import look_up, number, refuse, whole_at_least

STATES = {"running": "", "finished": "", "interrupted": "", "failed": "", "killed": ""}
WRITTEN = "what bilaw writes there"
REMEDY = "restore it, or start the run anew"
fcntl: Any = importlib.import_module("fcntl") if sys.platform != "win32" else None  # a Unix module


class Status(NamedTuple):
    """Where a run stands."""

    state: str  # running, finished, interrupted, failed, or killed: said to run, but no process holds it
    epoch: int  # epochs done
    epochs: int
    best: dict[str, Any] | None  # the best epoch's metrics
    updated: float  # seconds since 1970
    pid: int  # of the process at work on it, and the machine that runs it
    host: str


def read(path: Path) -> Status:
    """Return the status in a file, refusing anything that was not written as one."""
    held = read_json(path)
    if not isinstance(held, dict) or held.keys() != set(Status._fields):
        refuse(str(path), "damaged", WRITTEN)
    look_up("state", held["state"], STATES)
    for name in ("epoch", "epochs", "pid"):
        whole_at_least(name, held[name], 0)
    number("updated", held["updated"])
    if held["best"] is not None:
        _check_best(held["best"])
    return Status(**held)


def _check_best(best: Any) -> None:
    if not isinstance(best, Mapping):
        refuse("best", best, "the metrics of an epoch")
    for name, value in best.items():
        if value is not None:
            number(f"best.{name}", value)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds, refusing one that is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, IsADirectoryError) as error:
        refuse(str(path), "damaged", f"{WRITTEN} ({error})")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file that grows by lines of JSON; what a kill left of the last one is passed over."""
    try:
        *whole, _ = path.read_text(encoding="utf-8").split("\n")
        held = [json.loads(line) for line in whole]
    except (ValueError, RecursionError, IsADirectoryError) as error:
        refuse(str(path), "damaged", f"{WRITTEN} ({error}): {REMEDY}")
    if not all(isinstance(line, dict) for line in held):
        refuse(str(path), "damaged", f"{WRITTEN}: {REMEDY}")
    return held


def locked(file: IO[bytes], shared: bool) -> bool:
    """Lock `file`, and tell whether nobody else had; the system lets go when `file` is closed or its process dies."""
    try:
        if fcntl:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True
