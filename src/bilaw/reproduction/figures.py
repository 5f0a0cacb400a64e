"""The figures of a cell, seed by seed, as its evaluations left them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from bilaw.evaluation.store import read_verdicts
from bilaw.reproduction.plan import Cell, Source
from bilaw.runs import Run

NEAR, ABOVE = 1.2, 1.5  # times the accuracy of guessing: at most so much is chance, at least so much is learnt


@dataclass(frozen=True)
class Figure:
    """One accuracy of one run."""

    seed: int
    accuracy: float
    low: float  # Wilson's 95 % interval
    high: float
    n: int
    reliable: bool | None
    folder: Path  # of the evaluation
    attack: str

    def robust(self) -> Tensor:
        """Return the verdict on every sample."""
        return read_verdicts(self.folder)[f"{self.attack} robust"]


@dataclass(frozen=True)
class Seeds:
    """What there is of a cell."""

    cell: Cell
    figures: dict[str, list[Figure]]  # by metric; of runs that have learnt something
    finished: tuple[int, ...]  # seeds that are trained
    collapsed: tuple[int, ...]  # those among them that have fallen to chance: shown, and never averaged in
    minutes: tuple[float, ...]  # of training, seed by seed
    learnt: dict[int, Path]  # folders of those that have not collapsed


def seeds_in(out: Path) -> list[int]:
    """Return the seeds of the runs in a folder."""
    found = {int(match[1]) for path in out.glob("*-seed*") if (match := re.search(r"-seed(\d+)-\w+$", path.name))}
    return sorted(found)


def gather(cell: Cell, out: Path, seeds: Sequence[int]) -> Seeds:
    """Return what a cell has come to so far."""
    figures: dict[str, list[Figure]] = {metric: [] for metric in cell.table.metrics if metric != "speedup"}
    finished, lost, minutes, learnt = [], [], [], {}
    for seed in seeds:
        train = cell.train(seed)
        if not train.done(out):
            continue
        run = Run(out / train.folder)
        finished.append(seed)
        minutes.append(sum(line["seconds"] + line["select_seconds"] for line in run.timing()) / 60)
        sources = {metric: (source, source.task.result(out)) for metric, source in cell.sources(seed).items()}
        classes = next((held["data"]["classes"] for _, held in sources.values() if held), None)
        if classes and collapsed(run, classes):
            lost.append(seed)
            continue
        learnt[seed] = run.path
        for metric, (source, held) in sources.items():
            if held:
                figures[metric].append(_figure(seed, source, held, out))
    return Seeds(cell, figures, tuple(finished), tuple(lost), tuple(minutes), learnt)


def collapsed(run: Run, classes: int) -> bool:
    """Tell whether a run ended at chance on *select*, or never left it: no network to compare others with."""
    clean = [line["clean"] for line in run.epochs() if line["clean"] is not None]
    return not clean or max(clean) < ABOVE / classes or clean[-1] <= NEAR / classes


def _figure(seed: int, source: Source, result: dict[str, Any], out: Path) -> Figure:
    attack, _, other = source.attack.partition(":")  # of another run: by its folder's name, wherever that lay then

    def is_it(name: str) -> bool:
        mine, _, theirs = name.partition(":")
        return mine == attack and Path(theirs).name == other

    score = next(score for score in result["scores"] if is_it(score["attack"]))
    told = {name: score[name] for name in ("accuracy", "low", "high", "n", "reliable", "attack")}
    return Figure(seed=seed, folder=out / source.task.folder / source.task.place, **told)
