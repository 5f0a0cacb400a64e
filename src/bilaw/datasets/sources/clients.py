"""Running the package clients: apt-get, pip and npm, as they are set up on this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bilaw.errors import refuse

SECONDS = 1800.0  # for all a client does; they give up on a server that stalls long before


def run(command: Sequence[str], folder: Path, seconds: float = SECONDS) -> str:
    """Return what a client prints, run in `folder`; refuse one that is not there, or fails, with its own last words."""
    name = Path(command[0]).name
    program = shutil.which(command[0])
    if program is None:
        raise ValueError(f"{name} is not installed")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{name} did not end within {seconds:g} s") from None
    except OSError as error:
        raise ValueError(f"{name} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        raise ValueError(f"{name} failed: {last_words(done.stderr) or f'exit status {done.returncode}'}")
    return done.stdout


def last_words(text: str) -> str:
    """Return the last line that says what went wrong, cut to a line's length.

    >>> last_words("ERROR: no such package\\nnote: see the log\\n")
    'ERROR: no such package'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("e:", "error", "npm error", "npm err!"))]
    return (errors or lines or [""])[-1][:200]


def only(folder: Path, pattern: str) -> Path:
    """Return the one file a client left in `folder`."""
    found = [path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink()]
    if len(found) != 1:
        refuse(pattern, [path.name for path in found], "exactly one file from the client")
    return found[0]
