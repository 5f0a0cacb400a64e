"""The public addresses of the sets, or a mirror of them, through pooch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from bilaw.datasets.known import File
from bilaw.datasets.sources.archives import SLACK, from_archive, limit_of, unpacked
from bilaw.datasets.sources.offers import Attempt, Offer, Offers, Request, scratch
from bilaw.datasets.verify import cache_is_writable
from bilaw.errors import refuse

PIECE = 1 << 10  # how much has to come before the pace is judged again; 100 MB/s still get through


def attempts(request: Request) -> Iterator[Attempt]:
    """Try each public address, or the mirror alone if there is one."""
    for folder in (request.url,) if request.url else request.known.urls:
        yield Attempt(folder, partial(_offers, request, folder.rstrip("/") + "/"))


def _offers(request: Request, folder: str, wanted: Sequence[File]) -> Offers:
    archive = request.known.archive
    with scratch(request.into) as held:
        if archive:
            path = download(request, folder + archive.name, held, limit_of(request.known))
            yield from from_archive(path, request.known, archive, wanted)
        else:
            for file in wanted:
                path = download(request, f"{folder}{file.name}.gz", held, file.size + SLACK)
                yield Offer(file, unpacked(path))


def download(request: Request, url: str, into: Path, limit: int) -> Path:
    """Return the file at `url`, got into the folder `into`; refuse one that fails, stalls, crawls or is too long."""
    import pooch  # type: ignore[import-untyped]  # not above: importing bilaw stays light

    path, opened = into / "download", list[Any]()
    with cache_is_writable(path), path.open("wb") as out:
        sink = _Sink(out, name_of(url), limit, request)
        fetch = pooch.HTTPDownloader(
            progressbar=sink,
            chunk_size=PIECE,
            timeout=(request.patience.connect, request.patience.read),
            headers={"Accept-Encoding": "identity"},  # the bytes as they lie there
            hooks={"response": lambda response, **_: opened.append(response)},
        )
        try:
            fetch(url, sink, None)
        except OSError as error:  # all errors of requests are
            raise ValueError(f"{name_of(url)}: {reason(error, request)}") from error
        finally:
            for response in opened:  # pooch leaves the connection of a failed download open
                response.close()
    return path


def reason(error: OSError, request: Request) -> str:
    """Return in a few words why a download failed."""
    response, text = getattr(error, "response", None), str(error)
    if response is not None and response.status_code >= 400:
        return f"HTTP {response.status_code} {response.reason}"
    if "Connect" in type(error).__name__ and "imeout" in text:
        return f"no connection within {request.patience.connect:g} s"
    if "Read timed out" in text:
        return f"no byte for {request.patience.read:g} s"
    # The rest is an error inside an error inside an error: "...(Caused by X('...: [Errno 111] Connection refused'))".
    return text.rpartition("] ")[2].rpartition("Caused by ")[2].rstrip("()\"' ") or type(error).__name__


def name_of(url: str) -> str:
    """Return what a file at `url` is called.

    >>> name_of("https://example.org/mnist/train.gz")
    'train.gz'
    """
    return url.rpartition("/")[2]


class _Sink:
    """Both the file pooch writes to and the bar it reports to: it counts, and says when to leave."""

    def __init__(self, out: IO[bytes], name: str, limit: int, request: Request) -> None:
        self.out, self.name, self.limit = out, name, limit
        self.watch, self.patience = request.watch, request.patience
        self.done, self.total, self.began = 0, 0, time.monotonic()  # pooch sets the total that the server announced

    def write(self, chunk: bytes) -> None:
        self.done += len(chunk)
        if max(self.done, self.total) > self.limit:
            refuse(self.name, f"{max(self.done, self.total)} bytes", f"at most {self.limit} bytes")
        seconds = time.monotonic() - self.began
        if seconds > self.patience.read and self.done < seconds * self.patience.least:
            refuse(self.name, f"{self.done / seconds:.0f} bytes a second", f"at least {self.patience.least:g}")
        with cache_is_writable(Path(self.out.name)):  # or it would pass for an error of the download
            self.out.write(chunk)
        self.watch.amount(self.name, self.done, self.total)

    def flush(self) -> None:
        """Do nothing: the file is flushed when it is closed."""

    def update(self, amount: int) -> None:
        """Do nothing: pooch reports the size of its buffer, not of what came."""

    def reset(self) -> None:
        """Do nothing, nor on closing."""

    close = reset
