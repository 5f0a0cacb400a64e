"""From tables to tasks: which run, measured how, each figure comes from. What tables share is done once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from bilaw.errors import nearest, refuse
from bilaw.recipes.protocol import Measure, Protocol, Setting, protocol
from bilaw.recipes.tables import TABLES, Place, Row, Table, donor
from bilaw.reproduction.tasks import Evaluate, Task, Time, Train

MOST_SEEDS = 100


class Source(NamedTuple):
    """Where a figure comes from: one attack's accuracy of an evaluation."""

    task: Evaluate
    attack: str


class Cell(NamedTuple):
    """A row in a column of a table."""

    table: Table
    place: Place
    row: Row
    scale: str

    @property
    def label(self) -> str:
        """Return what `--only` knows it by: the setting it is measured in, then the row."""
        return f"{self.place.ours}/{self.row.name}"

    @property
    def protocol(self) -> Protocol:
        """Return how it is trained and measured."""
        return protocol(self.scale, self.place.ours)

    def train(self, seed: int) -> Train:
        """Return its run."""
        return _train(self.row, self.place.ours, self.scale, seed)

    def sources(self, seed: int) -> dict[str, Source]:
        """Return where its figures come from, by metric; speed-ups come from elsewhere."""
        made, train = self.protocol, self.train(seed)
        broad, pgd = made.broad, made.attacks["pgd"]
        found = {
            metric: Source(Evaluate(train, made.strong if metric == "aa" else broad), attack)
            for metric, attack in made.attacks.items()
        }
        if self.table.name == "weight-aware":
            other = _train(self.row, self.place.ours, self.scale, partner(seed)).name
            own = pgd.replace("pgd", "weight-aware")
            names = {None: pgd, "own": own, "other": f"{own}:{other}"}
            task = Evaluate(train, Measure(("clean", pgd, own, f"{own}:{other}"), broad.samples, broad.audit))
            found["pgd"] = Source(task, names[self.row.adversary])
        return {metric: found[metric] for metric in self.table.metrics if metric in found}

    def tasks(self, seed: int) -> Iterator[Task]:
        """Yield what has to be done for it, in order; runs that it needs come first."""
        train = self.train(seed)
        if self.row.donor:
            yield _donor(self.row, self.place.ours, self.scale, seed)
        yield train
        if self.table.name == "weight-aware":
            yield _train(self.row, self.place.ours, self.scale, partner(seed))
        for source in self.sources(seed).values():
            yield source.task


def partner(seed: int) -> int:
    """Return the seed of the other run whose weight network a weight-aware adversary has.

    >>> [partner(seed) for seed in range(3)]
    [1, 0, 1]
    """
    return seed - 1 if seed else 1


def cells(table: Table, scale: str, on: Setting | None = None) -> list[Cell]:
    """Return every cell of a table at a scale, column by column."""
    return [Cell(table, place, row, scale) for place in table.places(scale, on) for row in table.rows]


def times(table: Table, scale: str, on: Setting | None = None) -> list[tuple[Place, Time]]:
    """Return the timings that a table's speed-ups come from, column by column."""
    if "speedup" not in table.metrics:
        return []
    places = table.places(scale, on)
    return [(p, Time(tuple(_train(row, p.ours, scale, 0).config for row in table.rows))) for p in places]


def choose(found: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """Return the cells that one of the patterns names: words of DATA/MODEL/NORM/EPS/ROW in that order, some left out.

    >>> held = choose(cells(TABLES["mnist"], "small"), ["tiny-cnn/linf/bilaw*"])
    >>> [cell.label.removeprefix("mnist/") for cell in held]
    ['tiny-cnn/linf/0.1/bilaw', 'tiny-cnn/linf/0.1/bilaw-trades']
    """
    if not only:
        return list(found)
    kept = {}
    for pattern in only:
        named = [cell for cell in found if matches(pattern, cell)]
        if not named:
            words = {word: None for cell in found for word in (*cell.label.split("/"), cell.row.name)}
            wrong = next((word for word in pattern.split("/") if word not in words), pattern)
            example = found[0].label if found else "a row"
            refuse("--only", pattern, f"words of a label such as {example}{nearest(wrong, words)}; --list shows all")
        kept.update({(cell.table.name, cell.label, str(cell.place.paper)): cell for cell in named})
    order = list(found)
    return sorted(kept.values(), key=order.index)


def matches(pattern: str, cell: Cell) -> bool:
    """Tell whether the words of a pattern are among those of the cell's label, in that order.

    A row's name may have a slash in it, as "pgd/f-fgsm" has: it counts as one word, too.
    """
    for label in (cell.place.ours, cell.place.paper):
        words = [*str(label).split("/"), cell.row.name]
        wanted = pattern.split("/")
        if "/" in cell.row.name and (pattern == cell.row.name or pattern.endswith("/" + cell.row.name)):
            wanted = [*pattern.removesuffix(cell.row.name).strip("/").split("/"), cell.row.name]
            wanted = [word for word in wanted if word]
        rest = iter(words)
        if all(any(fnmatchcase(word, want) for word in rest) for want in wanted):
            return True
    return False


def tasks(chosen: Sequence[Cell], seeds: int, on: Setting | None = None) -> dict[str, Task]:
    """Return what has to be done, by name: the timings, then seed by seed."""
    found: dict[str, Task] = {}
    for name in dict.fromkeys(cell.table.name for cell in chosen):
        places = {cell.place for cell in chosen if cell.table.name == name}
        scale = next(cell.scale for cell in chosen if cell.table.name == name)
        found |= {timing.name: timing for place, timing in times(TABLES[name], scale, on) if place in places}
    for seed in range(seeds):
        for cell in chosen:
            for task in cell.tasks(seed):
                found.setdefault(task.name, task)
    return found


def _train(row: Row, setting: Setting, scale: str, seed: int) -> Train:
    config = replace(row.recipe(protocol(scale, setting).base), seed=seed)
    if not row.donor:
        return Train(config)
    needs = _donor(row, setting, scale, seed).name
    return Train(replace(config, scheme=replace(config.scheme, network=needs)), needs)


def _donor(row: Row, setting: Setting, scale: str, seed: int) -> Train:
    assert row.donor is not None
    return Train(replace(row.donor(protocol(scale, donor(setting)).base), seed=seed))
