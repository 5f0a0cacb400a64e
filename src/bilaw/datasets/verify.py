"""How a file comes into the cache folder: whole, with the right content, or not at all."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bilaw.datasets.known import File
from bilaw.errors import Refused, refuse
from bilaw.files import explained, replacing, write_text

CHUNK = 1 << 20
UNREADABLE = (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile)  # what a broken file may raise


class CannotWrite(Refused):
    """The cache folder cannot be written: another source would not help."""


def place(target: Path, file: File, chunks: Iterable[bytes], vouched: bool = False) -> None:
    """Write `chunks` to `target` if they are the right content, whole; otherwise leave things as they were.

    They are counted and hashed on the way to a temporary file. A stream that is too long is left at once, so one that
    never ends does no harm. `vouched`: it comes out of an archive whose checksum is right.
    """
    if file.md5 is None and not vouched:
        refuse(file.name, "a loose file", "the archive it belongs to, whose checksum is known while the file's is not")
    size, digest = 0, hashlib.md5(usedforsecurity=False)
    with cache_is_writable(target), replacing(target) as part:
        with part.open("wb") as out:
            for chunk in _read(file.name, chunks):
                size += len(chunk)
                if size > file.size:
                    refuse(file.name, f"more than {file.size} bytes", f"{file.size} bytes")
                digest.update(chunk)
                out.write(chunk)
        check(file.name, (size, digest.hexdigest()), (file.size, file.md5 or digest.hexdigest()))
        if file.md5 is None:
            write_text(_md5_beside(target), f"{digest.hexdigest()}  {target.name}\n")


def check(name: str, found: tuple[int, str], expected: tuple[int, str | None]) -> None:
    """Refuse content whose (size, md5) is not as expected.

    >>> check("t10k-labels-idx1-ubyte", (9000, ""), (10008, ""))
    Traceback (most recent call last):
    bilaw.errors.Refused: t10k-labels-idx1-ubyte = '9000 bytes' is not accepted; it takes 10008 bytes
    """
    if found[0] != expected[0]:
        refuse(name, f"{found[0]} bytes", f"{expected[0]} bytes")
    if expected[1] is None:
        refuse(name, f"md5 {found[1]}", "a file whose md5 was written down beside it when it was got")
    if found[1] != expected[1]:
        refuse(name, f"md5 {found[1]}", f"md5 {expected[1]}")


def check_file(path: Path, file: File) -> None:
    """Refuse a file of the cache that is not there, or not what it should be."""
    if not path.is_file():
        refuse(file.name, "no file", f"{file.size} bytes in {path.parent}")
    size = path.stat().st_size
    check(file.name, (size, md5_of(path) if size == file.size else ""), (file.size, expected_md5(path, file)))


def expected_md5(path: Path, file: File) -> str | None:
    """Return the md5 the file must have: the known one, or the one written down when it was placed."""
    beside = _md5_beside(path)
    if file.md5 or not beside.is_file():
        return file.md5
    with beside.open("rb") as stream:
        return stream.read(32).decode("ascii", "replace")


def md5_of(path: Path) -> str:
    """Return the md5 of a file's content."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def cache_is_writable(path: Path) -> Iterator[None]:
    """Tell an error in writing `path` from the errors of a source."""
    try:
        with explained(path):
            yield
    except OSError as error:
        raise CannotWrite(error.strerror or str(error)) from error


def _md5_beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.md5")


def _read(name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks; what breaks here is the source's fault, not the cache folder's."""
    try:
        yield from chunks
    except UNREADABLE as error:
        raise Refused(f"{name} cannot be read: {error}") from error
