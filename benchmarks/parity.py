"""AutoAttack standard against the installable ones: verdicts sample by sample, whole and component by component.

    python benchmarks/parity.py RUN [--samples 1000] [--eps EPS] [--norm NORM] [--peers pyautoattack,torchattacks]
                                [--keep FILE]

Needs `make .venv/peers`. Every side attacks the same clean-correct samples of the test half with one thread;
torchattacks is told to take 100 iterations (its own default is 10). Components are run alone, each on all of them.
The points of every side are judged by us: eval mode, float32, inside the ball and the box. One line of JSON a row.

The peers take hours on a larger net: with --keep their verdicts are put into a .safetensors file as they come, and
taken from there the next time, so that a run that was stopped goes on and ours can be compared anew.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bilaw.attacks import NORMS
from bilaw.attacks.autoattack import standard
from bilaw.datasets.augment import to_unit
from bilaw.datasets.data import shape_of, take
from bilaw.datasets.table import load
from bilaw.evaluation.statistics import wilson
from bilaw.models.own import load_model
from bilaw.models.weights import load_weights
from bilaw.rng import generator
from bilaw.runs import Run
from bilaw.types import Attack, Batch

Side = Callable[[Tensor, Tensor], Tensor]  # images and labels in, points out
BATCH = 250


def ours(model: nn.Module, attacks: dict[str, Attack], seed: int) -> Side:
    def points(x: Tensor, y: Tensor) -> Tensor:
        found, left = x.clone(), torch.arange(len(x))
        for name, attack in attacks.items():
            for start in range(0, len(left), BATCH):
                part = left[start : start + BATCH]
                found[part] = attack(model, Batch(x[part], y[part], part), generator(seed, name, start)).x
            with torch.no_grad():
                left = left[model(found[left]).argmax(dim=1) == y[left]]
        return found

    return points


def pyautoattack(model: nn.Module, eps: float, norm: str, seed: int, parts: list[str] | None) -> Side:
    from pyautoattack import AutoAttack

    def points(x: Tensor, y: Tensor) -> Tensor:
        names = {"linf": "Linf", "l2": "L2"}
        version = "standard" if parts is None else "custom"
        attack = AutoAttack(model, attacks=parts, norm=names[norm], eps=eps, version=version, seed=seed)
        attack.apgd.n_restarts = 1  # as in its standard version; a custom one takes 5
        found: Tensor = attack.run_standard_evaluation(x, y, batch_size=BATCH)[0]
        return found

    return points


def torchattacks(model: nn.Module, eps: float, norm: str, seed: int, part: str | None, classes: int) -> Side:
    import torchattacks as peer

    name = {"linf": "Linf", "l2": "L2"}[norm]

    def made() -> Any:
        targets = {"n_classes": classes, "steps": 100, "eps": eps, "norm": name, "seed": seed}
        parts = {
            "apgd-ce": lambda: peer.APGD(model, eps=eps, norm=name, seed=seed, steps=100, loss="ce"),
            "apgd-t": lambda: peer.APGDT(model, **targets),
            "fab-t": lambda: peer.FAB(model, multi_targeted=True, **targets),
            "square": lambda: peer.Square(model, eps=eps, norm=name, seed=seed, n_queries=5000),
        }
        chosen = [parts[one]() for one in (parts if part is None else [part])]
        return chosen[0] if part is not None else peer.MultiAttack(chosen)

    def points(x: Tensor, y: Tensor) -> Tensor:
        attack = made()
        return torch.cat([attack(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH)])

    return points


@torch.no_grad()
def robust(model: nn.Module, x: Tensor, y: Tensor, found: Tensor, eps: float, norm: str) -> Tensor:
    inside = (NORMS[norm].size(found - x) <= eps * (1 + 1e-5) + 1e-6) & (found.flatten(1).amin(1) >= 0)
    inside &= found.flatten(1).amax(1) <= 1
    wrong = torch.cat([model(found[i : i + BATCH]).argmax(1) for i in range(0, len(x), BATCH)]) != y
    return ~(wrong & inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--eps", type=float, help="default: the run's")
    parser.add_argument("--norm", choices=sorted(NORMS), help="default: the run's")
    parser.add_argument("--peers", default="pyautoattack,torchattacks")
    parser.add_argument("--parts", default="all,apgd-ce,apgd-t,fab-t,square")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="file for the peers' verdicts")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    run, seed = Run(arguments.run), arguments.seed
    config = run.config()
    eps, norm = arguments.eps or config.attack.eps, arguments.norm or config.attack.norm
    data = load(config.data.name, config.data.root)
    assert data.test is not None, "the data set has no test half"
    model = load_model(config.model.name, shape_of(data.test), len(data.classes), config.seed)
    load_weights(model, run.best)
    model.eval().requires_grad_(False)
    held = take(data.test, torch.arange(min(arguments.samples, len(data.test.y))))
    x, y = to_unit(held.x), held.y
    with torch.no_grad():
        right = torch.cat([model(x[i : i + BATCH]).argmax(1) for i in range(0, len(x), BATCH)]) == y
    clean, x, y = len(x), x[right], y[right]
    peers = [name for name in arguments.peers.split(",") if name]
    versions = {name: metadata.version(name) for name in ("torch", "bilaw", *peers)}
    about = {"run": run.path.name, "eps": eps, "norm": norm, "samples": clean, "clean": round(len(x) / clean, 4)}
    kept = load_file(arguments.keep) if arguments.keep and arguments.keep.exists() else {}
    print(json.dumps({**about, "versions": versions, "machine": platform.machine(), "threads": 1}), flush=True)
    for part in arguments.parts.split(","):
        parts = standard(eps, norm)
        sides: dict[str, Side] = {"bilaw": ours(model, parts if part == "all" else {part: parts[part]}, seed)}
        if "pyautoattack" in peers:
            sides["pyautoattack"] = pyautoattack(model, eps, norm, seed, None if part == "all" else [part])
        if "torchattacks" in peers:
            one = None if part == "all" else part
            sides["torchattacks"] = torchattacks(model, eps, norm, seed, one, len(data.classes))
        verdicts: dict[str, Tensor] = {}
        for name, side in sides.items():
            key = f"{run.path.name} {norm} {eps:.6g} {clean} {seed} {part} {name} {versions[name]}"
            if name != "bilaw" and key in kept:
                verdicts[name], seconds = kept[key][0].bool(), float(kept[key][1, 0])
            else:
                began = time.process_time()
                found = side(x, y)
                seconds = time.process_time() - began
                verdicts[name] = robust(model, x, y, found, eps, norm)
                if arguments.keep and name != "bilaw":
                    kept[key] = torch.stack([verdicts[name].float(), torch.full((len(x),), seconds)])
                    save_file(kept, arguments.keep)
            hits = int(verdicts[name].sum())
            low, high = wilson(hits, clean)
            row: dict[str, Any] = {"part": part, "side": name, "robust": round(hits / clean, 4)}
            row |= {"interval": [round(low, 4), round(high, 4)], "cpu_s": round(seconds, 1)}
            if name != "bilaw":
                same = verdicts[name] == verdicts["bilaw"]
                row["agree"] = round((int(same.sum()) + clean - len(x)) / clean, 4)
                row["only_we_break"] = int((verdicts[name] & ~verdicts["bilaw"]).sum())
                row["only_they_break"] = int((~verdicts[name] & verdicts["bilaw"]).sum())
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
