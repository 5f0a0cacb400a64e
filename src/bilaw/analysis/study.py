"""A study: one run's folder, read whole, and the probe of its best weights. Figures are functions of studies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch

from bilaw import sealed
from bilaw.analysis import weights
from bilaw.analysis.history import History, history
from bilaw.analysis.measures import Array
from bilaw.analysis.probe import Probe, Progress, Target, probe
from bilaw.config import ComputeConfig, Config
from bilaw.datasets.augment import to_unit
from bilaw.datasets.data import Dataset, Samples, shape_of, take
from bilaw.datasets.table import load as load_data
from bilaw.errors import Refused, refuse
from bilaw.evaluation.plan import SAMPLES
from bilaw.evaluation.store import beside, read_result, read_verdicts
from bilaw.files import is_folder
from bilaw.models.own import load_model
from bilaw.models.weights import load_weights
from bilaw.net import Net
from bilaw.recipes.methods import names
from bilaw.runs import Run
from bilaw.status import Status
from bilaw.training.device import computing, resolve
from bilaw.training.pretrained import load_omega
from bilaw.weighting import Omega

TEST, SELECT = "test", "select"  # where the samples are from


class Missing(Refused):
    """Something that a figure needs and this run does not have, in words for its reader."""


def missing(what: str) -> NoReturn:
    """Say what is not there, and why."""
    raise Missing(what)


class Verdict(NamedTuple):
    """What became of the samples of an evaluation under one attack."""

    place: Array  # (n,) int64, in the half that was judged
    robust: Array  # (n,) bool
    by: Array  # (n,) int8: the place in `attacks` of what broke it; -1 nothing, -2 wrong as it is
    attacks: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """One run: what its folder tells, and what its best weights say of the samples."""

    name: str
    run: Run
    config: Config
    status: Status | None
    epochs: list[dict[str, Any]]
    timing: list[dict[str, Any]]
    events: list[dict[str, Any]]
    history: History | None
    results: tuple[dict[str, Any], ...]  # finished evaluations of one ball, the run's own first
    scores: dict[str, dict[str, Any]]  # by attack
    verdicts: dict[str, Verdict]
    classes: tuple[str, ...]
    probe: Probe | None
    images: Array | None  # (n, channels, height, width) float32 in [0, 1], of the probe's samples
    omega: Omega | None
    notes: tuple[str, ...]  # what is not there, and why

    @property
    def method(self) -> str:
        """Return the method as one speaks of it."""
        return names(self.config)[2]

    @property
    def ball(self) -> tuple[float, str]:
        """Return eps and norm of the evaluation or, without one, of the training."""
        return _ball(self.config, self.results)

    @property
    def seen(self) -> Probe:
        """Return the probe, or say why there is none."""
        if self.probe is None:
            missing("; ".join(self.notes) or "This run was not probed.")
        return self.probe

    @cached_property
    def weight(self) -> Array | None:
        """Return the relative weights of the run's own scheme on the probe's samples, where it has any."""
        return None if self.probe is None else weights.own(self.config, self.omega, self.probe)

    def audit(self) -> list[dict[str, Any]]:
        """Return the findings of the run's own evaluation."""
        return list(self.results[0]["audit"]) if self.results else []


def study(
    path: Path | str,
    *,
    name: str | None = None,
    samples: int | None = None,
    look: bool = True,
    compute: ComputeConfig | None = None,
    watch: Progress = lambda done, total: None,
) -> Study:
    """Read a run's folder; with `look`, probe its best weights where that is not done yet.

    `samples` is how many held-out samples the probe looks at; None: those that were evaluated, else 1,000.
    """
    run = Run.open(path)
    config = run.config()
    notes: list[str] = []
    data = _data(config, notes)
    results, scores, verdicts = _evaluations(run, config, data, notes)
    seen, omega, images = None, None, None
    if data is not None and not run.best.is_file():
        notes.append("This run has no best epoch yet, so there are no weights to look at.")
    elif data is not None and look:
        try:
            seen, omega, images = _probed(run, config, data, results, verdicts, samples, compute, watch)
        except Refused as error:
            notes.append(f"The best weights cannot be looked at: {error}.")
    elif not look:
        notes.append("The best weights were not looked at.")
    classes = data.classes if data is not None else ()
    metrics = run.metrics() if is_folder(run.path) else []
    return Study(
        name or run.path.resolve().name,
        run,
        config,
        _status(run),
        run.epochs(),
        run.timing(),
        [line for line in metrics if "event" in line],
        history(run, data),
        results,
        scores,
        verdicts,
        classes,
        seen,
        images,
        omega,
        tuple(notes),
    )


def _status(run: Run) -> Status | None:
    try:
        return run.status()
    except (Refused, OSError):
        return None


def _data(config: Config, notes: list[str]) -> Dataset | None:
    try:
        return load_data(config.data.name, config.data.root)
    except (Refused, OSError) as error:
        notes.append(f"The data cannot be read: {error}.")
        return None


def _evaluations(
    run: Run, config: Config, data: Dataset | None, notes: list[str]
) -> tuple[tuple[dict[str, Any], ...], dict[str, dict[str, Any]], dict[str, Verdict]]:
    """Return results, scores and verdicts of every finished evaluation of the first one's data and ball."""
    results: list[dict[str, Any]] = []
    scores: dict[str, dict[str, Any]] = {}
    verdicts: dict[str, Verdict] = {}
    folders = beside(run.evaluation)
    weights_now = _weights_digest(run, config, data) if folders else None
    for folder in folders:
        result = read_result(folder)
        if result is None:
            notes.append(f"The evaluation in {folder.name} is not finished; `bilaw evaluate` goes on with it.")
            continue
        if data is not None and not _is_of(result, data):
            notes.append(f"The evaluation in {folder.name} is of other data than the run's; it is left out.")
            continue
        told = result["model"].get("weights")
        if told and weights_now and told != weights_now:
            again = "it was made earlier, or with another model"
            notes.append(f"The evaluation in {folder.name} is of other weights than the run's best: {again}.")
            continue
        if results and any(_asked(result)[key] != _asked(results[0])[key] for key in _asked(result)):
            notes.append(f"The evaluation in {folder.name} is of other data, weights or another ball; it is left out.")
            continue
        held = read_verdicts(folder)
        results.append(result)
        for score in result["scores"]:
            attack = score["attack"]
            if attack in scores:
                continue
            by = held[f"{attack} by"] if f"{attack} by" in held else torch.where(held[f"{attack} robust"], -1, 0)
            names_of = tuple(name for name in score["broken_by"] if name != "already")
            place = held["index"] if "index" in held else torch.arange(len(by))
            scores[attack] = score
            verdicts[attack] = Verdict(place.numpy(), held[f"{attack} robust"].numpy(), by.numpy(), names_of)
    if not results:
        notes.append(f"There is no finished evaluation; `bilaw evaluate {run.path.name}` makes one.")
    return tuple(results), scores, verdicts


def _weights_digest(run: Run, config: Config, data: Dataset | None) -> str | None:
    """Return the hash of the best weights as an evaluation notes it; None where the model cannot be made here."""
    if data is None or not run.best.is_file():
        return None
    try:
        model = load_model(config.model.name, shape_of(data.test or data.train), len(data.classes), 0)
        load_weights(model, run.best)
    except (Refused, OSError):
        return None  # said where the weights are looked at
    return sealed.digest({name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)})


def _is_of(result: Mapping[str, Any], data: Dataset) -> bool:
    """Tell whether a result is of the data's test half."""
    told = result["data"]
    return data.test is not None and (told["name"], told["half"], told["of"]) == (data.name, TEST, len(data.test.y))


def _asked(result: Mapping[str, Any]) -> dict[str, Any]:
    data = result["data"]
    return {
        "data": (data.get("name"), data.get("half"), data.get("of")),
        "threat": result["threat"],
        "model": result.get("model", {}).get("digest"),
    }


def _probed(
    run: Run,
    config: Config,
    data: Dataset,
    results: Sequence[Mapping[str, Any]],
    judged: Mapping[str, Verdict],
    samples: int | None,
    compute: ComputeConfig | None,
    watch: Progress,
) -> tuple[Probe, Omega | None, Array]:
    half, held, place = _samples(run, data, judged, samples)
    model = load_model(config.model.name, shape_of(held), len(data.classes), 0)
    load_weights(model, run.best)
    omega = _omega(run, config, len(data.classes))
    compute = resolve(compute or ComputeConfig(), model)
    device = torch.device(compute.device or "cpu")
    net = Net(model.eval().to(device), channels_last=bool(compute.channels_last))
    eps, norm = _ball(config, results)
    facts = {
        "data": data.name,
        "half": half,
        "of": len(held.y),
        "classes": len(data.classes),
        "eps": eps,
        "norm": norm,
        "weights": hashlib.blake2b(run.best.read_bytes(), digest_size=16).hexdigest(),
    }
    with computing(compute):
        seen = probe(run.analysis, Target(net.frozen(), held, facts, device), place, watch)
    return seen, omega, to_unit(take(held, place).x).numpy()


def _ball(config: Config, results: Sequence[Mapping[str, Any]]) -> tuple[float, str]:
    if results:
        return results[0]["threat"]["eps"], results[0]["threat"]["norm"]
    return config.attack.eps, config.attack.norm


def _samples(
    run: Run, data: Dataset, judged: Mapping[str, Verdict], samples: int | None
) -> tuple[str, Samples, torch.Tensor]:
    """Return the half, its name, and the places of the samples to look at: those that were evaluated come first."""
    if data.test is None:  # *select* is held out of training, though it chose the epoch
        select = run.splits()["select"]
        return SELECT, data.train, select if samples is None else select[:samples]
    n = len(data.test.y)
    if judged and samples is None:
        return TEST, data.test, torch.from_numpy(max((verdict.place for verdict in judged.values()), key=len))
    return TEST, data.test, torch.arange(min(n, samples or SAMPLES))


def _omega(run: Run, config: Config, classes: int) -> Omega | None:
    if run.omega.is_file():
        return load_omega(run.path, classes)
    return load_omega(config.scheme.network, classes) if config.scheme.network is not None else None


def studies(paths: Sequence[Path], read: Callable[[Path, str], Study]) -> list[Study]:
    """Return the studies of several runs, each named by its folder, or by its path where two folders have one name."""
    if not paths:
        refuse("RUN", "nothing", "at least one run")
    short = [path.resolve().name for path in paths]
    return [read(path, str(path) if short.count(own) > 1 else own) for path, own in zip(paths, short, strict=True)]


def labels(one: Study) -> Array:
    """Return the probe's labels."""
    return np.asarray(one.seen.y.numpy())
