"""`bilaw demo`: four methods on the digits that come with the package, in a minute or two."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bilaw.attacks import PGD
from bilaw.commands.progress import training_progress
from bilaw.config import AttackConfig, Config, OptimConfig
from bilaw.datasets import digits
from bilaw.evaluation.accuracy import correct
from bilaw.evaluation.statistics import wilson
from bilaw.models import build
from bilaw.recipes.methods import method
from bilaw.settings import override
from bilaw.training.fit import fit

METHODS = {"at": "AT", "trades": "TRADES", "bilaw": "BiLAW", "bilaw-trades": "BiLAW-TRADES"}
EPS = 0.1
Interval = tuple[float, float]


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "demo",
        help="train AT, TRADES, BiLAW and BiLAW-TRADES on digits and compare them",
        description="Train AT, TRADES, BiLAW and BiLAW-TRADES on the digits that come with the package, and print "
        "one table of clean and PGD-20 accuracy on the test half.",
    )
    parser.add_argument("--epochs", metavar="N", default="40", help="epochs for each method (default: %(default)s)")
    parser.add_argument("--seed", metavar="N", default="0", help="seed of everything random (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Train, evaluate, and print the table."""
    console = Console()
    data = digits.load()
    assert data.test is not None  # digits have a test half
    base = Config(attack=AttackConfig(eps=EPS), optim=OptimConfig(batch=64, lr=0.05))
    base = override(base, {"optim.epochs": arguments.epochs, "seed": arguments.seed})
    table = Table(title=f"Digits, Tiny-CNN, linf eps {EPS:g}\n{len(data.test.y)} test images, 95 % intervals")
    for heading in ("method", "clean", "PGD-20", "time"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    intervals: dict[str, list[Interval]] = {"clean": [], "PGD-20": []}
    for name, title in METHODS.items():
        began = time.monotonic()
        model = build("tiny-cnn", (1, 8, 8), len(data.classes), seed=base.seed)
        with training_progress(console, f"{title:12}", base.optim.epochs) as watch:
            fit(model, data, method(name, base), watch=watch)
        cells = []
        for attack, found in zip((None, PGD(EPS, steps=20)), intervals.values(), strict=True):
            hits = correct(model, data.test, attack, seed=base.seed)
            low, high = wilson(int(hits.sum()), len(hits))
            found.append((low, high))
            cells.append(f"{hits.float().mean():.1%}  [{low:.1%}, {high:.1%}]".replace("[", "\\["))
        table.add_row(title, *cells, f"{time.monotonic() - began:.0f} s")
    console.print(table)
    for line in (text for name, found in intervals.items() if (text := overlapping(name, found))):
        console.print(line, highlight=False)
    return 0


def overlapping(name: str, intervals: Sequence[Interval]) -> str | None:
    """Return what to say of intervals that all share a point; None where some do not.

    >>> overlapping("clean", [(0.2, 0.5), (0.4, 0.7)]), overlapping("clean", [(0.2, 0.3), (0.4, 0.7)])
    ('clean: all intervals overlap: this table does not rank the methods', None)
    """
    if max(low for low, _ in intervals) > min(high for _, high in intervals):
        return None
    return f"{name}: all intervals overlap: this table does not rank the methods"
