"""A fresh look at a run's best weights: fixed held-out samples as they are and under PGD-20, kept in the run's folder.

Reports are made of run folders; what no other file of a run tells (logits, adversarial points, GAIRAT's kappa,
accuracy along the budget) is computed once, here, batch by batch. A killed probe goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bilaw import sealed
from bilaw.attacks import PGD
from bilaw.datasets.augment import to_unit
from bilaw.datasets.data import Samples, take
from bilaw.files import explained
from bilaw.margins import misclassified
from bilaw.rng import generator
from bilaw.types import Batch, LogitsOf

STEPS = 20  # METHOD section 5: PGD for evaluation
BATCH = 128
FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # of eps: the budget curve
CURVE = 1000  # samples of the budget curve, at most
LEVELS = 127  # a change of a pixel is kept as a whole number of so many parts of the largest
FORMAT = 1
KEY = re.compile(r"[0-9a-f]{12}(\.safetensors)?")

Progress = Callable[[int, int], None]  # samples attacked, samples in all


class Probe(NamedTuple):
    """What the best weights say of n samples."""

    place: Tensor  # (n,) int64, in the half that the samples are of
    y: Tensor  # (n,) int64
    logits: Tensor  # (n, k) float32, as they are
    logits_adv: Tensor  # (n, k) under PGD-20, whether the clean image is classified correctly or not
    survived: Tensor  # (n,) int64, GAIRAT's kappa, of STEPS
    change: Tensor  # (n, ...) int8: adversarial less clean image, in LEVELS parts of `size`
    size: Tensor  # (n,) float32, the largest change of a pixel
    radii: Tensor  # (r,) float64, of the budget curve, 0 first
    robust: Tensor  # (r, c) bool: which of the first c samples stay right within each radius
    facts: dict[str, Any]  # data, half, of, classes, eps, norm, weights, steps, seconds


class Target(NamedTuple):
    """Who is looked at: a classifier in eval mode, and where the samples come from."""

    logits_of: LogitsOf
    samples: Samples
    facts: dict[str, Any]
    device: torch.device


def probe(folder: Path, target: Target, place: Tensor, watch: Progress) -> Probe:
    """Return the probe of the samples at `place`: that in `folder` if it is of the same, else made and kept there."""
    facts = _facts(target, place)
    key = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=6).hexdigest()
    file, parts = folder / f"{key}.safetensors", folder / key
    if (done := _held(file)) is not None:
        return Probe(**done.tensors, facts=done.facts)
    with explained(parts):
        parts.mkdir(parents=True, exist_ok=True)
    began, rows, few = time.monotonic(), [], place[:CURVE]
    total = len(place) + len(few) * len(FACTORS)
    for start in range(0, len(place), BATCH):
        some = place[start : start + BATCH]
        rows.append(_kept(parts / f"{start:07d}.safetensors", partial(_look, target, some, start)))
        watch(start + len(some), total)
    tensors = {name: torch.cat([row[name] for row in rows]) for name in rows[0]}
    robust = [~misclassified(tensors["logits"], tensors["y"])[: len(few)]]
    for i, factor in enumerate(FACTORS):
        made = partial(_budget, target, few, robust[-1], factor * facts["eps"])
        robust.append(_kept(parts / f"budget-{factor:g}.safetensors", made)["robust"])
        watch(len(place) + (i + 1) * len(few), total)
    radii = torch.tensor([0.0, *FACTORS], dtype=torch.float64) * facts["eps"]
    tensors |= {"place": place, "radii": radii, "robust": torch.stack(robust)}
    facts["seconds"] = time.monotonic() - began  # of this process: what a killed one did before is not in it
    sealed.write(file, tensors, facts)
    _clear(folder, keep=file.name)
    return Probe(**tensors, facts=facts)


def _facts(target: Target, place: Tensor) -> dict[str, Any]:
    settings = {"format": FORMAT, "steps": STEPS, "factors": list(FACTORS), "curve": CURVE}
    return {**target.facts, **settings, "places": hashlib.blake2b(place.numpy().tobytes(), digest_size=8).hexdigest()}


def _look(target: Target, place: Tensor, start: int) -> dict[str, Tensor]:
    """Return what the classifier says of a batch, clean and attacked."""
    batch, eps = _batch(target, place), target.facts["eps"]
    attack = PGD(eps, target.facts["norm"], steps=STEPS)
    found = attack(target.logits_of, batch, generator(0, "probe", start, device=target.device))
    with torch.no_grad():
        logits, logits_adv = target.logits_of(batch.x).float(), target.logits_of(found.x).float()
    change = found.x - batch.x
    size = change.flatten(1).abs().amax(dim=1)
    parts = change / size.clamp_min(1e-12).view(-1, *[1] * (change.ndim - 1)) * LEVELS
    held = {"y": batch.y, "logits": logits, "logits_adv": logits_adv, "survived": found.survived}
    held |= {"change": parts.round().to(torch.int8), "size": size}
    return {name: value.cpu() for name, value in held.items()}


def _budget(target: Target, place: Tensor, left: Tensor, eps: float) -> dict[str, Tensor]:
    """Return which of the samples that are `left` stay right within `eps`: a larger ball holds the smaller one."""
    robust, attack = left.clone(), PGD(eps, target.facts["norm"], steps=STEPS)
    for some in torch.split(left.nonzero()[:, 0], BATCH):
        if len(some):
            batch = _batch(target, place[some])
            drawn = generator(0, "budget", f"{eps:.6g}", int(some[0]), device=target.device)
            with torch.no_grad():
                logits = target.logits_of(attack(target.logits_of, batch, drawn).x)
            robust[some] = ~misclassified(logits, batch.y).cpu()
    return {"robust": robust}


def _batch(target: Target, place: Tensor) -> Batch:
    raw, y = take(target.samples, place)
    return Batch(to_unit(raw.to(target.device)), y.to(target.device), place.to(target.device))


def _kept(file: Path, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return what is in `file`, or what `make` gives, which is kept there."""
    if (held := _held(file)) is not None:
        return held.tensors
    made = make()
    sealed.write(file, made, {})
    return made


def _held(file: Path) -> sealed.Sealed | None:
    """Return what is in a file; a damaged one is made again."""
    try:
        return sealed.read(file) if file.is_file() else None
    except ValueError:
        return None


def _clear(folder: Path, keep: str) -> None:
    """Remove the parts, and probes of what the run was before."""
    for other in folder.iterdir():
        if KEY.fullmatch(other.name) and other.name != keep:
            shutil.rmtree(other, ignore_errors=True) if other.is_dir() else other.unlink(missing_ok=True)
