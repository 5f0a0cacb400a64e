"""The contract between `get` and the sources: a source makes attempts, and an attempt makes offers of files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bilaw.datasets.known import File, Known
from bilaw.datasets.verify import cache_is_writable
from bilaw.files import PART


class Offer(NamedTuple):
    """What may be the content of one file: `place` decides."""

    file: File
    chunks: Iterable[bytes]
    vouched: bool = False  # it comes out of an archive whose checksum is right


Offers = Generator[Offer, None, None]


class Attempt(NamedTuple):
    """One try at the files that are wanted; it fails by a ValueError that says why."""

    label: str
    offers: Callable[[Sequence[File]], Offers]


class Watch(NamedTuple):
    """Called along the way, to show how far it has got."""

    note: Callable[[str], None] = lambda text: None
    amount: Callable[[str, int, int], None] = lambda what, done, total: None  # bytes; total 0: not known


class Patience(NamedTuple):
    """How long a server may take. Its checksum is judged later; this only says when to try the next one."""

    connect: float = 10.0  # seconds
    read: float = 20.0  # seconds without a byte
    least: float = 2_000.0  # bytes a second on average, after the first `read` seconds


QUIET, PATIENT = Watch(), Patience()


class Request(NamedTuple):
    """What `get` was asked for."""

    known: Known
    into: Path  # the set's folder in the cache; temporary files lie there too, where there must be room anyway
    folder: Path | None = None
    url: str | None = None
    watch: Watch = QUIET
    patience: Patience = PATIENT


Source = Callable[[Request], Iterator[Attempt]]


@contextmanager
def scratch(into: Path) -> Iterator[Path]:
    """Give a temporary folder inside `into`."""
    with cache_is_writable(into):
        held = tempfile.TemporaryDirectory(prefix=".", suffix=PART, dir=into)
    with held as folder:
        yield Path(folder)
