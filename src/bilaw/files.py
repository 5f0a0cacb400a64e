"""Writing files so that they are there whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

PART = ".part"  # how the names of half-written files end
LONGEST = 240  # bytes of a name: systems take 255, of which a half-written folder needs some


def is_name(path: str) -> bool:
    """Tell whether a file may be called so: not empty, Unicode without NUL, and no part of it too long.

    >>> is_name("runs/mine"), is_name("runs/" + 250 * "a"), is_name("\\udcff")
    (True, False, False)
    """
    try:
        return bool(path) and "\0" not in path and all(len(part.encode()) <= LONGEST for part in Path(path).parts)
    except UnicodeEncodeError:  # bytes that are no UTF-8
        return False


def is_folder(path: Path) -> bool:
    """Tell whether a folder is there; none is under a name that no file can have."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary file to write beside `path`; on leaving it is on the disk and takes the name of `path`.

    A failure leaves the old file as it was and nothing beside it; a kill may leave a `.part` file, never half of
    `path`.
    """
    with explained(path):
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
        try:
            part.touch(exist_ok=False)
            yield part
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write tensors as safetensors, whole or not at all."""
    # contiguous: safetensors stores no strides; clone: two names may share one memory
    held = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    with replacing(path) as part:
        part.write_bytes(_ordered(save(held, dict(about))))  # Python's own write says what is wrong with a disk


def _ordered(data: bytes) -> bytes:
    """Return a safetensors file with what its header tells about the tensors in the order of the names.

    The library's own order differs from one process to the next.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + data[end:]


def append(path: Path, data: bytes) -> None:
    """Append `data` and wait until it is on the disk."""
    with explained(path), path.open("ab") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def json_line(values: dict[str, Any]) -> bytes:
    """Return one line of JSON; NaN, which JSON lacks, becomes null.

    >>> json_line({"epoch": 1, "clean": float("nan")})
    b'{"epoch": 1, "clean": null}\\n'
    """
    return (json.dumps(_plain(values), allow_nan=False) + "\n").encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return None if value != value else value


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say of an operating system's error which file it struck."""
    try:
        yield
    except OSError as error:
        if getattr(error, "explained", False):
            raise
        clear = OSError(error.errno, f"cannot write {path}: {error.strerror or error}")
        clear.explained = True  # type: ignore[attr-defined]
        raise clear from error


def settle(draft: Path, home: Path, last: str) -> None:
    """Let a folder take the place of `home`, absent or empty, at once; a mount point is filled instead, `last` last."""
    try:
        if home.exists():
            home.rmdir()
        draft.rename(home)
    except OSError:
        if not home.is_dir() or any(path != draft for path in home.iterdir()):
            raise
        _fill(home, sorted(draft.iterdir(), key=lambda part: part.name == last))
    sync_folder(home.parent)


def _fill(home: Path, parts: Sequence[Path]) -> None:
    try:
        for part in parts:
            shutil.move(part, home / part.name)
        sync_folder(home)
    except BaseException:
        for left in (home / part.name for part in parts):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Wait until the names in `folder` are on the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
