"""Fashion-MNIST from the Debian package `dataset-fashion-mnist`: as it is installed, or fetched without root."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, cast

from bilaw.datasets.known import File
from bilaw.datasets.sources.archives import chunks_of, limit_of, tar_members, unpacked
from bilaw.datasets.sources.clients import only, run
from bilaw.datasets.sources.offers import Attempt, Offer, Offers, Request, scratch

PACKAGE = "dataset-fashion-mnist"


def attempts(request: Request) -> Iterator[Attempt]:
    """Take the installed package if there is one, then a fetched one."""
    if held := _installed(request.into):
        yield Attempt(f"the installed {PACKAGE}", partial(_loose, held))
    yield Attempt(f"apt-get download {PACKAGE}", partial(_fetched, request))


def _installed(folder: Path) -> dict[str, Path]:
    """Return the package's data files by name; none where it, or dpkg, is not installed."""
    try:
        listing = run(["dpkg-query", "-L", PACKAGE], folder)
    except ValueError:
        return {}
    paths = [Path(line) for line in listing.splitlines()]
    return {path.name: path for path in paths if path.suffix == ".gz" and path.is_file()}


def _loose(held: dict[str, Path], wanted: Sequence[File]) -> Offers:
    for file in wanted:
        if path := held.get(f"{file.name}.gz"):
            yield Offer(file, unpacked(path))


def _fetched(request: Request, wanted: Sequence[File]) -> Offers:
    by_name = {f"{file.name}.gz": file for file in wanted}
    with scratch(request.into) as folder:
        run(["apt-get", "download", PACKAGE], folder)
        run(["dpkg-deb", "--info", str(only(folder, "*.deb"))], folder)  # is it a package, and is dpkg-deb there?
        # The package's files as a tar stream: nothing is installed, or even unpacked.
        command = ["dpkg-deb", "--fsys-tarfile", str(only(folder, "*.deb"))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            # Leaving early closes the pipe, which ends dpkg-deb.
            for name, content in tar_members(cast(IO[bytes], process.stdout), by_name, limit_of(request.known)):
                # It is gzipped without name and time, so that only what it holds can be compared.
                yield Offer(by_name[name], chunks_of(gzip.GzipFile(fileobj=content)))
