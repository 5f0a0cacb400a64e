"""`evaluate`: a classifier and data in; accuracies with intervals, verdicts on every sample and an audit out."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bilaw import sealed
from bilaw.config import ComputeConfig
from bilaw.datasets.arrays import from_arrays
from bilaw.datasets.augment import to_unit
from bilaw.datasets.data import Dataset, Images, Samples, take
from bilaw.datasets.own import as_dataset
from bilaw.datasets.table import DATASETS
from bilaw.datasets.table import load as load_data
from bilaw.errors import refuse
from bilaw.evaluation import card
from bilaw.evaluation.findings import Finding
from bilaw.evaluation.measure import Subject, Verdicts, Watch, check_finite, check_outputs, fixed_index, measure
from bilaw.evaluation.plan import SAMPLES, Plan
from bilaw.evaluation.result import Score, tensors, to_json
from bilaw.evaluation.store import Folder, read_points, read_result, read_verdicts
from bilaw.evaluation.suites import USUAL, WEIGHT_AWARE, Omegas, suite
from bilaw.net import Net, frozen
from bilaw.training.device import computing, resolve
from bilaw.training.pretrained import load_omega
from bilaw.types import LogitsOf
from bilaw.version import __version__
from bilaw.weighting import Omega

BATCHES = {"cpu": 128}  # of each kind of device, if nothing else is said
BATCH = 512
NOTHING = sealed.digest({})  # of a function that is random: there is nothing to know it by


class Evaluation(NamedTuple):
    """What an evaluation came to."""

    scores: dict[str, Score]
    audit: list[Finding]
    verdicts: dict[str, Verdicts]  # for every suite, sample by sample
    places: Tensor  # (N,) of the samples in the data set
    result: dict[str, Any]  # as result.json has it

    @property
    def reliable(self) -> bool | None:
        """Return whether no check failed; None where there was no audit."""
        held: bool | None = self.result["reliable"]
        return held


def evaluate(
    model: nn.Module | LogitsOf,
    data: Any,
    y: Any = None,
    *,
    eps: float,
    norm: str = "linf",
    attacks: Sequence[str] = USUAL,
    samples: int | None = SAMPLES,
    seed: int = 0,
    batch: int | None = None,
    audit: int = 200,
    points: bool = False,
    omega: Omega | None = None,
    compute: ComputeConfig | None = None,
    out: Path | str | None = None,
    watch: Watch | None = None,
    name: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Judge `model` on images and labels (`data`, `y`), or on the test half of a data set.

    `model` is a module, judged in eval mode and left as it was, or a function from images in [0, 1] to logits.
    `attacks` are names (`evaluation.suites`), `samples` None means all. `omega` is the model's own weight network,
    for weight-aware attacks. With `compute.precision` bf16 attacks climb in bfloat16, and are judged in float32 all the
    same. With `out`, a folder, every finished batch is kept there: a killed evaluation goes on
    where it was, and refuses to with another model, other data or other settings.

    >>> x, y = torch.rand(20, 1, 2, 2, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2
    >>> found = evaluate(lambda x: x.flatten(1)[:, :2], x, y, eps=0.1, attacks=["fgsm"], audit=0)
    >>> found.scores["fgsm"].accuracy <= found.scores["clean"].accuracy
    True
    """
    watch = watch or Watch()
    if torch.is_inference_mode_enabled():
        refuse("mode", "torch.inference_mode()", "no such block around it: attacks take gradients")
    dataset = _dataset(data, y)
    held, half = (dataset.test, "test") if dataset.test is not None else (dataset.train, "all")
    compute = resolve(compute or ComputeConfig(), model if isinstance(model, nn.Module) else nn.Identity())
    device = torch.device(compute.device or "cpu")
    size = BATCHES.get(device.type, BATCH) if batch is None else batch
    plan = Plan(eps, norm, tuple(attacks), samples, seed, size, audit, points, compute.precision or "fp32")
    if plan.precision != "fp32" and not isinstance(model, nn.Module):
        refuse("compute.precision", plan.precision, "fp32 for a function, which computes as it will")
    known = (isinstance(data, str) and data in DATASETS) or dataset.name in DATASETS
    index = fixed_index(len(held.y), plan, known)
    home = _home(model)
    with computing(compute):
        try:
            subject = _subject(model, device, compute)
            first = take(held, index[:8])
            classes = None if y is not None else len(dataset.classes)
            seen = check_outputs(subject, first, held.y, classes, plan)
            k = seen.shape[1]
            images = _held(held, index)
            if out is None or read_result(out) is None:  # a finished evaluation costs nothing to read
                check_finite(subject, images, plan)
            told: dict[str, Any] = {
                "bilaw": __version__,
                "model": {"name": name or _name(model), **_digest(subject, first, seen), **(about or {})},
                "data": {
                    "name": dataset.name,
                    "half": half,
                    "samples": len(index),
                    "of": len(held.y),
                    "classes": k,
                    "digest": _data_digest(images, index),
                },
                "environment": _environment(device),
            }
            if out is not None and subject.module is None and told["model"]["digest"] == NOTHING:
                refuse("out", str(out), "a model that can be known again: this function gives other logits each time")
            omegas = _omegas(omega, k, device)
            suites = [suite(name, eps, norm, omegas) for name in plan.names]  # refused before anything is written
            store = _folder(out, told, plan, _omega_digests(plan, omegas))
            if store and (done := read_result(store.path)):
                return _again(done, store)
            found = measure(subject, images, suites, plan, store, watch)
        finally:
            if isinstance(model, nn.Module):
                model.to(home)
    result = to_json(found, plan, told)
    if store:
        verdicts, kept = tensors(found, index, images.y)
        texts = {
            "timing.json": json.dumps({"seconds": found.seconds}, indent=1) + "\n",
            "model_info.json": json.dumps(card.model_info(result), indent=1) + "\n",
            "card.md": card.page(result),
        }
        store.finish(result, verdicts, kept, texts)
    return Evaluation(_scores(result), found.audit, found.verdicts, index, result)


def _scores(result: Mapping[str, Any]) -> dict[str, Score]:
    return {one["attack"]: Score(**one) for one in result["scores"]}


def _again(result: dict[str, Any], store: Folder) -> Evaluation:
    """Return an evaluation that was finished before."""
    audit = [Finding(**{**one, "concerns": tuple(one["concerns"])}) for one in result["audit"]]
    held, points = read_verdicts(store.path), read_points(store.path)
    verdicts = {
        name: Verdicts(held[f"{name} robust"], held[f"{name} by"], held[f"{name} loss"], points.get(name))
        for name in result["settings"]["attacks"]
    }
    return Evaluation(_scores(result), audit, verdicts, held["index"], result)


def _dataset(data: Any, y: Any) -> Dataset:
    if y is not None:
        half = from_arrays(data, y, "test")
        return Dataset("own data", half.samples, None, (), augment=False, notes=half.notes)
    return load_data(data) if isinstance(data, str) else as_dataset(data)


def _held(samples: Samples, index: Tensor) -> Images:
    """Return the samples that are judged, read once."""
    return Images(*(part.cpu() for part in take(samples, index)))


def _subject(model: nn.Module | LogitsOf, device: torch.device, compute: ComputeConfig) -> Subject:
    if not isinstance(model, nn.Module):
        return Subject(frozen(model), None, False, device)
    trained = any(part.training for part in model.modules())
    half = compute.precision == "bf16"
    logits_of = Net(model.to(device), channels_last=bool(compute.channels_last), bf16_attacks=half).frozen()
    own = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    if own is not torch.float32:
        if half:
            refuse("compute.precision", "bf16", f"fp32 for a model of {own}, which attacks climb in its own precision")
        return Subject(lambda x: logits_of(x.to(own)).float(), model, trained, device)
    return Subject(logits_of, model, trained, device)


def _home(model: nn.Module | LogitsOf) -> torch.device:
    first = next(iter(model.parameters()), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if first is None else first.device


def _name(model: nn.Module | LogitsOf) -> str:
    kind = type(model) if isinstance(model, nn.Module) else model
    return f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', type(model).__name__)}"


def _digest(subject: Subject, first: Images, seen: Tensor) -> dict[str, Any]:
    """Return how many parameters the model has, and a hash of its weights and of its logits on the first samples."""
    with torch.no_grad():
        again = subject.logits_of(to_unit(first.x.to(subject.device)))
    rounded = (seen.double() / seen.abs().max().clamp_min(1e-12) * 100).round()  # the last digits may differ elsewhere
    held = {"logits": rounded} if torch.equal(seen, again) else {}  # what a model does may not be in its weights
    count = None
    if subject.module is not None:
        state = {name: value for name, value in subject.module.state_dict().items() if isinstance(value, Tensor)}
        held |= {f"module {name}": value for name, value in state.items()}
        count = sum(value.numel() for value in subject.module.parameters())
        return {"parameters": count, "digest": sealed.digest(held), "weights": sealed.digest(state)}
    return {"parameters": count, "digest": sealed.digest(held)}


def _data_digest(images: Images, index: Tensor) -> str:
    return sealed.digest({"x": images.x, "y": images.y, "index": index})


def _environment(device: torch.device) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "threads": torch.get_num_threads(),
    }


def _folder(out: Path | str | None, told: Mapping[str, Any], plan: Plan, omegas: Mapping[str, str]) -> Folder | None:
    if out is None:
        return None
    settings = {**plan.settings(), **omegas, "bilaw": told["bilaw"]}
    manifest = {
        "data": told["data"]["digest"],  # first: other data give other logits, and so another model
        "model": told["model"]["digest"],
        "settings": settings,
    }
    return Folder(out, manifest)


def _omega_digests(plan: Plan, omegas: Omegas) -> dict[str, str]:
    """Return a hash of every weight network that an attack is given."""
    found = {name: WEIGHT_AWARE.fullmatch(name) for name in plan.names}
    return {f"network of {name}": _omega_digest(omegas(match[2])) for name, match in found.items() if match}


def _omega_digest(omega: Omega) -> str:
    return sealed.digest(omega.network.state_dict(), f"{omega.features} {omega.margin_from}")


def _omegas(own: Omega | None, classes: int, device: torch.device) -> Callable[[str | None], Omega]:
    def find(run: str | None) -> Omega:
        if run is not None:
            return load_omega(run, classes, device)
        if own is None:
            wanted = "an attack that needs no weight network: the model was trained without one"
            refuse("attacks", "weight-aware", f"{wanted}; weight-aware-20:RUN takes that of another run")
        return replace(own, network=own.network.to(device))

    return find
