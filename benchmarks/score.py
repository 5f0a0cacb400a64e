"""Clean and PGD-20 accuracy of finished runs on the test half, with 95 % intervals.

    python benchmarks/score.py RUN... [--root DIR]

Each run's best epoch on *select*; every run is attacked from the same starts. `ess` is the weights' effective sample
size, epoch by epoch; ms a step and peak memory are what the run wrote down (medians over its epochs).
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from bilaw.attacks import PGD
from bilaw.datasets.data import shape_of
from bilaw.datasets.table import load
from bilaw.evaluation.accuracy import correct
from bilaw.evaluation.statistics import wilson
from bilaw.models.own import load_model
from bilaw.models.weights import load_weights
from bilaw.runs import Run


def score(run: Run, root: str | None) -> str:
    """Return a line on one run."""
    config = run.config()
    data = load(config.data.name, root or config.data.root)
    assert data.test is not None, "the data set has no test half"
    model = load_model(config.model.name, shape_of(data.test), len(data.classes), config.seed)
    load_weights(model, run.best)
    parts = [f"{run.path.name:24}"]
    for attack in (None, PGD(config.attack.eps, config.attack.norm, steps=20)):
        hits = correct(model, data.test, attack, seed=0)
        low, high = wilson(int(hits.sum()), len(hits))
        parts.append(f"{hits.double().mean():.2%} [{low:.1%}, {high:.1%}]")
    best, timing = run.status().best, run.timing()
    assert best is not None
    parts.append(f"best epoch {best['epoch'] + 1} of {len(run.epochs())}, select {best['robust']:.1%}")
    parts.append(f"{statistics.median(line['ms_a_step'] for line in timing):.0f} ms a step")
    parts.append(f"{max(line['peak_mib'] for line in timing):.0f} MiB")
    parts.append("ess " + " ".join(f"{line['ess']:.2f}" for line in run.epochs()))
    return "  ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--root", help="folder of the data sets (default: the run's own)")
    arguments = parser.parse_args()
    for path in arguments.runs:
        print(score(Run(path), arguments.root), flush=True)


if __name__ == "__main__":
    main()
