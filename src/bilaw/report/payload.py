"""What a page is told of its runs: figures' numbers as JSON, samples as columns, pictures as sheets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bilaw.analysis import weights
from bilaw.analysis.figures import errors, robustness, samples, training, weighing
from bilaw.analysis.measures import Array, margins, softmax
from bilaw.analysis.study import Missing, Study, labels
from bilaw.report.embed import Columns
from bilaw.report.sprites import Sheet, change_sheet, clean_sheet
from bilaw.version import __version__

KNOWN = 64  # classes, up to which the page itself projects likelihoods
SPREAD = 65535  # a likelihood is told in 16 bits
JUDGED = {"broken": 0, "robust": 1, "wrong": 2, "unknown": 3}
SHARE = 0.4  # of the bytes for pictures that the clean ones may take

OF_RUNS: dict[str, Callable[[Sequence[Study]], Any]] = {
    "scores": robustness.scores_data,
    "comparison": lambda studies: [one._asdict() for one in robustness.comparison_data(studies)],
    "budget": robustness.budget_data,
    "classes": robustness.classes_data,
    "ranks": errors.ranks_data,
    "curves": training.curves_data,
    "cost": training.cost_data,
}
OF_RUN: dict[str, Callable[[Study], Any]] = {
    "audit": training.audit_data,
    "confusion": lambda one: _confusion(errors.confusion_data(one)),
    "weights": weighing.distribution_data,
    "progress": weighing.progress_data,
    "omega": weighing.omega_data,
}


class Pool(NamedTuple):
    """The samples of one data set that any run of the page was probed on, in the order of their places."""

    name: str
    half: str
    classes: tuple[str, ...]
    place: Array
    y: Array
    images: Array | None

    def rows(self, one: Study) -> Array:
        """Return where the run's samples are in the pool."""
        return np.searchsorted(self.place, one.seen.place.numpy())


def told(number: Callable[..., Any], *of: Any) -> Any:
    """Return a figure's numbers or, where there are none, why."""
    try:
        return number(*of)
    except Missing as why:
        return {"missing": str(why)}


def pools(studies: Sequence[Study]) -> tuple[list[Pool], list[int | None]]:
    """Return the pools of all samples, and which of them each study's are in."""
    held: dict[tuple[Any, ...], list[Study]] = {}
    for one in (one for one in studies if one.probe is not None):
        held.setdefault(_of(one), []).append(one)
    made, order = [], list(held)
    for members in held.values():
        place, first = np.unique(np.concatenate([one.seen.place.numpy() for one in members]), return_index=True)
        y = np.concatenate([labels(one) for one in members])[first]
        images = None
        if all(one.images is not None for one in members):
            images = np.concatenate([one.images for one in members if one.images is not None])[first]
        facts = members[0].seen.facts
        made.append(Pool(facts["data"], facts["half"], members[0].classes, place, y, images))
    return made, [order.index(_of(one)) if one.probe is not None else None for one in studies]


def _of(one: Study) -> tuple[Any, ...]:
    facts = one.seen.facts
    return facts["data"], facts["half"], facts["of"], facts["classes"]


def about(one: Study, pool: int | None) -> dict[str, Any]:
    """Return what there is to say of a run, and the numbers of its own figures."""
    config, best = one.config, one.status.best if one.status else None
    eps, norm = one.ball
    return {
        "name": one.name,
        "method": one.method,
        "model": config.model.name,
        "data": config.data.name,
        "seed": config.seed,
        "scheme": config.scheme.name,
        "trained": None if config.loss.name == "plain" else {"eps": config.attack.eps, "norm": config.attack.norm},
        "ball": {"eps": eps, "norm": norm},
        "state": one.status.state if one.status else "unknown",
        "epochs": [len(one.epochs), config.optim.epochs],
        "best": best,
        "events": [line["text"] for line in one.events if "text" in line],
        "notes": list(one.notes),
        "pool": pool,
        "attacks": {name: list(verdict.attacks) for name, verdict in one.verdicts.items()},
        "weighs": one.weight is not None,
        "figures": {name: told(number, one) for name, number in OF_RUN.items()} | {"schemes": _schemes(one)},
    }


def _confusion(data: dict[str, Any]) -> dict[str, Any]:
    """Return confusions; of many classes those alone that a matrix shows."""
    shown = errors.most_mistaken(data["adversarial"])
    counts = {name: data[name][np.ix_(shown, shown)] for name in ("clean", "adversarial")}
    return {**counts, "which": shown, "classes": [data["classes"][c] for c in shown], "of": len(data["classes"])}


def _schemes(one: Study) -> Any:
    """Return correlations and class means; the samples' own weights are columns."""
    found = told(weighing.schemes_data, one)
    keys = ("class means", "correlation", "classes", "missing")
    return {key: found[key] for key in keys if key in found}


def columns(one: Study, pool: Pool) -> Columns:
    """Return what is known of each sample of the pool, and of the clouds' samples alone."""
    seen, made, rows, n = one.seen, Columns(), pool.rows(one), len(pool.place)
    clean, adversarial = seen.logits.numpy(), seen.logits_adv.numpy()
    y, kind = labels(one), "uint8" if len(one.classes) <= 255 else "uint16"

    def spread(values: Any, empty: float, dtype: str, name: str) -> None:
        held = np.full(n, empty, dtype=dtype)
        held[rows] = values
        made.add(name, held, dtype)

    spread(1, 0, "uint8", "known")
    spread(clean.argmax(1), 0, kind, "predicted")
    spread(adversarial.argmax(1), 0, kind, "adversarial")
    spread(margins(clean, y), np.nan, "float32", "margin")
    spread(margins(adversarial, y), np.nan, "float32", "adversarial margin")
    spread(seen.survived.numpy(), 0, "uint8", "survived")
    spread(seen.size.numpy(), 0, "float32", "size")
    if (weight := one.weight) is not None:
        spread(weight, np.nan, "float32", "weight")
    for attack, verdict in one.verdicts.items():
        where = np.searchsorted(pool.place, verdict.place)
        fits = (where < n) & (pool.place[np.minimum(where, n - 1)] == verdict.place)
        word = np.where(verdict.by == -2, JUDGED["wrong"], np.where(verdict.robust, JUDGED["robust"], JUDGED["broken"]))
        word = np.where((attack == "clean") & ~verdict.robust, JUDGED["wrong"], word)
        for name, values, empty in (("verdict", word, JUDGED["unknown"]), ("by", verdict.by + 2, 1)):
            held = np.full(n, empty, dtype=np.uint8)
            held[where[fits]] = values[fits]
            made.add(f"{name} {attack}", held, "uint8")
    cloud = samples.cloud(one)
    made.add("cloud", rows[cloud], "uint32")
    likely = softmax(clean.astype(np.float64))[cloud]
    if likely.shape[1] <= KNOWN:
        made.add("likelihoods", np.round(likely * SPREAD), "uint16")
    else:
        made.add("at", samples.likelihoods_data(one)["at"], "float32")
    if weight is not None:
        for name, values in weights.heuristics(one.config, seen).items():
            made.add(name, values[cloud], "float32")
    return made


def pictures(
    studies: Sequence[Study], held: Sequence[Pool], budget: float
) -> tuple[list[Sheet | None], list[Sheet | None]]:
    """Return a sheet of clean pictures for each pool, and one of changes for each study, within `budget` bytes."""
    shown = [pool for pool in held if pool.images is not None]
    clean: list[Sheet | None] = []
    for pool in held:
        clean.append(None if pool.images is None else clean_sheet(pool.images, SHARE * budget / len(shown)))
    left = budget - sum(len(sheet.data) for sheet in clean if sheet)
    changed: list[Sheet | None] = []
    wanting = [one for one in studies if one.probe is not None]
    for one in studies:
        if one.probe is None:
            changed.append(None)
            continue
        sheet = change_sheet(one.seen.change.numpy().astype(np.float32) / 127, important(one), left / len(wanting))
        left, wanting = left - len(sheet.data), wanting[1:]
        changed.append(sheet)
    return clean, changed


def important(one: Study) -> Array:
    """Return the samples in the order in which their changes go into a page: extremes, broken, robust, wrong as is."""
    _, values = samples.ordering(one)
    y = labels(one)
    clean, held = (logits.argmax(1).numpy() == y for logits in (one.seen.logits, one.seen.logits_adv))
    rank = np.where(clean & ~held, 1, np.where(clean, 2, 3))
    order = np.argsort(values, kind="stable")
    rank[order[:20]], rank[order[-20:]] = 0, 0
    return np.argsort(rank, kind="stable")


def payload(studies: Sequence[Study], held: Sequence[Pool], of: Sequence[int | None]) -> dict[str, Any]:
    """Return what the page is told, but for columns and pictures."""
    return {
        "made": {"bilaw": __version__},
        "pools": [
            {"name": pool.name, "half": pool.half, "classes": list(pool.classes), "n": len(pool.place)} for pool in held
        ],
        "runs": [about(one, pool) for one, pool in zip(studies, of, strict=True)],
        "figures": {name: told(number, studies) for name, number in OF_RUNS.items()},
    }
