"""The cache folder, where the paper's data sets lie decompressed: ROOT/NAME/FILE."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from bilaw.datasets.known import File, Known
from bilaw.datasets.verify import check, check_file, expected_md5
from bilaw.errors import Refused, refuse

VARIABLE = "BILAW_DATA"


def root_folder(root: Path | str | None = None) -> Path:
    """Return the cache folder: the argument, else $BILAW_DATA, else the user's own cache.

    >>> root_folder("data/cache").parts
    ('data', 'cache')
    """
    if chosen := root or os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    import pooch  # type: ignore[import-untyped]  # not above: importing bilaw stays light

    return Path(pooch.os_cache("bilaw"))


def folder_of(known: Known, root: Path | str | None = None) -> Path:
    """Return where the files of a data set lie, or would."""
    return root_folder(root) / known.name


def is_complete(known: Known, root: Path | str | None = None) -> bool:
    """Tell whether all files of a data set are there, whatever is in them."""
    return all((folder_of(known, root) / file.name).is_file() for file in known.files)


def faults(known: Known, root: Path | str | None = None, remove: bool = False) -> dict[str, str]:
    """Return what is wrong with each file that is not as it should be, by its name; `remove` discards what is wrong."""
    found = {}
    for file in known.files:
        path = folder_of(known, root) / file.name
        try:
            check_file(path, file)
        except ValueError as error:
            found[file.name] = str(error) + (discard(path, file) if remove else "")
        except OSError as error:
            found[file.name] = str(error)
    return found


def discard(path: Path, file: File) -> str:
    """Remove a file whose content was found wrong from the cache, and return what to say of it.

    What is not known to be wrong stays, and so does what lies elsewhere: behind a folder that is a link.
    """
    if not path.is_file() or (path.stat().st_size == file.size and expected_md5(path, file) is None):
        return ""
    if path.parent.is_symlink():
        return f"; left where it is, for {path.parent} is a link"
    try:
        path.unlink()  # of a link, the link alone
    except OSError as error:
        return f"; it could not be removed ({error.strerror or error})"
    return "; it was removed"


def content(known: Known, root: Path | str | None = None) -> list[bytearray]:
    """Return the bytes of a data set's files, each checked, or refuse saying which command gets them.

    The md5 is taken of the very bytes that are handed out: 0.3 s for CIFAR-10, and nothing altered is trained on.
    """
    folder = folder_of(known, root)
    command = f"bilaw data get {known.name}" + (f" --root {root}" if root else "")
    if not is_complete(known, root):
        refuse("data", known.name, f"a data set that lies in the cache folder {folder.parent}; to get it: {command}")
    held = []
    for file in known.files:
        path = folder / file.name
        size = path.stat().st_size
        raw = bytearray(file.size if size == file.size else 0)
        with path.open("rb") as stream:
            stream.readinto(raw)
        found = hashlib.md5(raw, usedforsecurity=False).hexdigest()
        try:
            check(str(path), (size, found), (file.size, expected_md5(path, file)))
        except ValueError as error:
            raise Refused(f"{error}{discard(path, file)}; to get it again: {command}") from None
        held.append(raw)
    return held
