"""Reading archives nobody has to trust: no name in them becomes a path, and their size is bounded while they are read.

Members are read as streams and never unpacked, so that a path or link in an archive has nothing to act on; one that
holds such things is refused all the same, because no honest one does.
"""

from __future__ import annotations

import gzip
import stat
import tarfile
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from bilaw.datasets.known import Archive, File, Known
from bilaw.datasets.sources.offers import Offer, Offers
from bilaw.datasets.verify import CHUNK, md5_of
from bilaw.errors import refuse

SLACK = 1 << 20  # bytes beside the files themselves: headers, licences, a package's own code
GZIP = b"\x1f\x8b"


class Stream(Protocol):
    """What can be read piece by piece."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""


def chunks_of(stream: Stream) -> Iterator[bytes]:
    """Yield a stream's content piece by piece."""
    while chunk := stream.read(CHUNK):
        yield chunk


def unpacked(path: Path) -> Iterator[bytes]:
    """Yield the content of a file, gzipped or plain: its first bytes tell, since servers and browsers may unpack it."""
    with path.open("rb") as stream:
        packed = stream.read(2) == GZIP
    with gzip.open(path) if packed else path.open("rb") as content:
        yield from chunks_of(content)


def from_archive(path: Path, known: Known, archive: Archive, wanted: Sequence[File]) -> Offers:
    """Offer the wanted files out of a set's .tar.gz.

    Files with a checksum of their own are right whoever packed them; others need the archive itself to be right.
    """
    vouched = any(file.md5 is None for file in wanted)
    if vouched and (found := md5_of(path)) != archive.md5:
        refuse(archive.name, f"md5 {found}", f"md5 {archive.md5}")
    by_name = {file.name: file for file in wanted}
    with gzip.open(path) as stream:
        for name, content in tar_members(stream, by_name, limit_of(known)):
            yield Offer(by_name[name], chunks_of(content), vouched)


def limit_of(known: Known) -> int:
    """Return how many bytes suffice for all files of a set, packed or not, with what lies beside them."""
    return sum(file.size for file in known.files) + SLACK


def tar_members(stream: Stream, names: Collection[str], limit: int) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield (name, content) of the members called one of `names`, in their order; read a content before the next.

    `limit` bounds the bytes that are read from `stream`, headers and skipped members included.
    """
    seen: set[str] = set()
    limited = _Limited(stream, limit)
    with tarfile.open(fileobj=limited, mode="r|", bufsize=CHUNK) as tar:  # type: ignore[call-overload]
        for member in tar:
            # A sparse file would unfold without a byte being read.
            _check_path(member.name, (member.isreg() and not member.issparse()) or member.isdir())
            name = PurePosixPath(member.name).name
            if name in names and member.isreg():
                _check_once(name, seen)
                yield name, tar.extractfile(member)


def zip_members(path: Path, limits: Mapping[str, int]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield (name, content) of the members called as in `limits`, none larger than its limit says."""
    seen: set[str] = set()
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            _check_path(member.filename, not stat.S_ISLNK(member.external_attr >> 16))
            name = PurePosixPath(member.filename).name
            if name in limits and not member.is_dir():
                _check_once(name, seen)
                if member.file_size > limits[name]:  # zipfile reads no more than is declared
                    refuse(name, f"{member.file_size} bytes", f"at most {limits[name]} bytes")
                if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    refuse(name, "encrypted or oddly packed", "a member as wheels have them")
                with archive.open(member) as content:
                    yield name, content


def _check_path(path: str, plain: bool) -> None:
    """Refuse a member that is not a plain file or folder, or that points out of the archive.

    >>> _check_path("../../etc/passwd", True)
    Traceback (most recent call last):
    bilaw.errors.Refused: member of the archive = '../../etc/passwd' is not accepted; it takes a path inside the archive
    """
    parts = path.replace("\\", "/").split("/")
    if parts[0] == "" or ".." in parts or ":" in parts[0]:
        refuse("member of the archive", path, "a path inside the archive")
    if not plain:
        refuse("member of the archive", path, "a regular file, not a link or a device")


def _check_once(name: str, seen: set[str]) -> None:
    if name in seen:
        refuse("member of the archive", name, "one file of that name, not two")
    seen.add(name)


class _Limited:
    """A stream that refuses to go on past a limit, so that a small archive cannot unfold into a large one."""

    def __init__(self, stream: Stream, limit: int) -> None:
        self.stream, self.left, self.limit = stream, limit, limit

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            refuse("archive", f"more than {self.limit} bytes unpacked", f"at most {self.limit}")
        return data
