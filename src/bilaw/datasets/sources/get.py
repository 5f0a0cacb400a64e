"""Getting a data set: its sources in order, until every file lies in the cache with the right content."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from bilaw.datasets.cache import faults, folder_of
from bilaw.datasets.known import KNOWN, File, Known
from bilaw.datasets.sources.offers import PATIENT, QUIET, Attempt, Offer, Patience, Request, Watch
from bilaw.datasets.sources.table import SOURCES
from bilaw.datasets.verify import UNREADABLE, CannotWrite, cache_is_writable, place
from bilaw.errors import Refused, look_up, refuse
from bilaw.files import PART

STALE = 24 * 3600  # seconds after which a temporary file was left by a process that was killed


def get(
    name: str,
    root: Path | str | None = None,
    *,
    folder: Path | str | None = None,
    source: str | None = None,
    url: str | None = None,
    watch: Watch = QUIET,
) -> Path:
    """Return the folder that holds the data set called `name`, got from the first of its sources that has it.

    `folder` is one the user has already, tried first; `url` a mirror, tried in place of the public addresses;
    `source` the only one to try.
    """
    return obtain(look_up("data", name, KNOWN), root, folder=folder, source=source, url=url, watch=watch)


def obtain(
    known: Known,
    root: Path | str | None = None,
    *,
    folder: Path | str | None = None,
    source: str | None = None,
    url: str | None = None,
    watch: Watch = QUIET,
    patience: Patience = PATIENT,
) -> Path:
    """Do what `get` does, for any set whose right content is known."""
    names = chosen(known, folder, source, url)
    into = folder_of(known, root)
    request = Request(known, into, None if folder is None else Path(folder).expanduser(), url, watch, patience)
    if request.folder and not (str(folder) and request.folder.is_dir()):
        refuse("--from", str(folder), "a folder that exists")
    with cache_is_writable(into):
        into.mkdir(parents=True, exist_ok=True)
        _tidy(into)
        wanted = _missing(known, root, watch)
    if not wanted:
        watch.note(f"already complete in {into}, all checksums right")
        return into
    failures = []
    for attempt in (attempt for name in names for attempt in SOURCES[name](request)):
        if not wanted:
            break
        watch.note(f"trying {attempt.label}")
        watch.amount(attempt.label, 0, 0)
        try:
            wanted = _take(attempt, wanted, into, watch)
            failure = f"{attempt.label} has no {', '.join(file.name for file in wanted)}"
        except CannotWrite:
            raise
        except (ValueError, *UNREADABLE) as error:
            wanted = [file for file in wanted if not (into / file.name).is_file()]
            failure = f"{attempt.label}: {error}"
        if wanted:
            failures.append(failure)
            watch.note(f"failed {failure}")
    if wanted:
        with suppress(OSError):
            into.rmdir()  # if nothing came
        tried = [f"({number}) {failure}" for number, failure in enumerate(failures, start=1)]
        raise Refused("\n".join([f"{known.name} could not be got; what was tried:", *tried]))
    watch.note(f"complete in {into}, all checksums right")
    return into


def chosen(known: Known, folder: Path | str | None, source: str | None, url: str | None) -> tuple[str, ...]:
    """Return the names of the sources to try, refusing a choice that contradicts itself.

    >>> chosen(KNOWN["mnist"], None, None, None)
    ('canonical', 'pypi')
    """
    if source is not None:
        look_up("--source", source, dict.fromkeys(known.sources))
    if source == "folder" and folder is None:
        refuse("--source", source, "--from FOLDER beside it")
    if url is not None and not url.startswith(("http://", "https://")):
        refuse("--url", url, "an address that starts with http:// or https:// (a folder here is --from FOLDER)")
    for option, value, its_source in (("--from", folder, "folder"), ("--url", url, "canonical")):
        if value is not None and source not in (None, its_source):
            refuse(option, str(value), f"--source {its_source} or no --source, not {source}")
    if source is not None:
        return (source,)
    return tuple(name for name in known.sources if folder is not None or name != "folder")


def _missing(known: Known, root: Path | str | None, watch: Watch) -> list[File]:
    """Return the files that are not there; one with wrong content is removed, so that it cannot be used."""
    wrong = faults(known, root)
    for name, fault in wrong.items():
        path = folder_of(known, root) / name
        if path.exists():
            watch.note(f"removed {path}: {fault}")
            path.unlink(missing_ok=True)
    return [file for file in known.files if file.name in wrong]


def _take(attempt: Attempt, wanted: Sequence[File], into: Path, watch: Watch) -> list[File]:
    """Place what an attempt offers, and return what is wanted still."""
    got = []
    with closing(attempt.offers(wanted)) as offers:
        for offer in offers:
            place(into / offer.file.name, offer.file, _counted(offer, watch), offer.vouched)
            got.append(offer.file)
            watch.note(f"got {offer.file.name}: {offer.file.size:,} bytes, checksum right")
    return [file for file in wanted if file not in got]


def _counted(offer: Offer, watch: Watch) -> Iterator[bytes]:
    done = 0
    for chunk in offer.chunks:
        done += len(chunk)
        watch.amount(offer.file.name, done, offer.file.size)
        yield chunk


def _tidy(into: Path) -> None:
    """Remove what killed processes left; what is younger may be another process's."""
    for path in into.glob(f".*{PART}"):
        with suppress(FileNotFoundError):  # another process has done with it
            if time.time() - path.stat().st_mtime > STALE:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
