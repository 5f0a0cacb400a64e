"""A folder the user has already: the files plain or gzipped, at its top or as torchvision lays them out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bilaw.datasets.known import File, Known
from bilaw.datasets.sources.archives import from_archive, unpacked
from bilaw.datasets.sources.offers import Attempt, Offer, Offers, Request
from bilaw.errors import refuse


def attempts(request: Request) -> Iterator[Attempt]:
    """Look at the top of the folder, then where torchvision, or another cache of ours, has the set."""
    known, top = request.known, request.folder
    if top is None:
        return
    found = False
    for place in (top, *(top / layout for layout in (*known.layouts, known.name))):
        held = {file: path for file in known.files if (path := lying(place, file))}
        if held:
            found = True
            yield Attempt(str(place), partial(_loose, held))
        if known.archive and (packed := place / known.archive.name).is_file():
            found = True
            yield Attempt(str(packed), partial(from_archive, packed, known, known.archive))
    if not found:
        yield Attempt(str(top), partial(_nothing, known, top))


def lying(place: Path, file: File) -> Path | None:
    """Return where in `place` a file lies, plain or gzipped; the plain one only if it was unpacked whole."""
    names = (file.name, file.name.replace("-idx", ".idx"))  # an old spelling that is still about
    paths = [path for name in names for path in (place / name, place / f"{name}.gz") if path.is_file()]
    whole = [path for path in paths if path.stat().st_size == file.size]
    return next(iter(whole or paths[::-1]), None)


def _loose(held: dict[File, Path], wanted: Sequence[File]) -> Offers:
    for file in wanted:
        if file in held:
            yield Offer(file, unpacked(held[file]))


def _nothing(known: Known, top: Path, wanted: Sequence[File]) -> Offers:
    yield from ()  # a generator as the others, that has nothing to offer but the reason
    names = f"{known.archive.name} or {wanted[0].name}" if known.archive else f"{wanted[0].name} or {wanted[0].name}.gz"
    for pickled in known.pickles:
        if (top / pickled).exists():
            refuse(
                "--from", str(top / pickled), f"the binary version ({names}); pickles can run code and are never loaded"
            )
    refuse("--from", str(top), f"a folder where {names} lies, at its top or in {', '.join(known.layouts)}")
