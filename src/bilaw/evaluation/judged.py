"""Evaluated runs by their folders, grouped by what they share but for the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bilaw import runs
from bilaw.evaluation.compare import Judged, open_judged
from bilaw.recipes.methods import names
from bilaw.settings import to_toml


def open_all(folders: Sequence[Path]) -> list[Judged]:
    """Return evaluations, each named by its folder, or by its path where two folders have one name."""
    short = [folder.name for folder in folders]
    judged = [_judged(folder) for folder in folders]
    named = [one if short.count(Path(one.name).name) > 1 else one._replace(name=Path(one.name).name) for one in judged]
    return _named(named)


def _judged(folder: Path) -> Judged:
    run = runs.Run(folder)
    if not run.config_file.is_file():
        return open_judged(folder, str(folder), str(folder))
    config = run.config()
    group = f"{names(config)[2]}\n{to_toml(replace(config, seed=0))}"
    return open_judged(run.evaluation, str(folder), group)


def _named(judged: list[Judged]) -> list[Judged]:
    """Return them with their groups named: a run alone by its own name, several seeds by what they share."""
    shared = {one.group: [other.name for other in judged if other.group == one.group] for one in judged}

    def name(group: str) -> str:
        members, method = shared[group], group.splitlines()[0]
        return members[0] if len(members) == 1 else f"{method} ({len(members)} seeds: {', '.join(members)})"

    return [one._replace(group=name(one.group)) for one in judged]
