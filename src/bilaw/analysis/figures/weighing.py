"""What samples weigh: by class, over the epochs, beside what heuristics would say, and as a function of the margin."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from bilaw.analysis import weights
from bilaw.analysis.drawn import COLOURS, DASHES, MARKERS, Drawn, axes, styled
from bilaw.analysis.measures import Array, quantiles, rank_correlation
from bilaw.analysis.study import Study, labels, missing
from bilaw.rng import seed_of
from bilaw.runs import ADVERSARIAL_WEIGHT

FOLLOWED = 30  # samples of each kind whose weights are followed
BANDS = (0.1, 0.5, 0.9)
DROP = 2.0  # a learning rate that falls by this factor is a step worth marking
CLASSES = 40
HEURISTICS = {"mail": "MAIL", "gairat": "GAIRAT", "wmmr": "WMMR"}


def own_weight(one: Study) -> Array:
    """Return the run's weights of the probe's samples, or say why it has none."""
    one.seen  # noqa: B018 - says why there is no probe
    weight = one.weight
    if weight is None and one.config.scheme.name == "uniform":
        missing(f"{one.method} weighs all samples the same.")
    if weight is None:
        missing(f"{one.method} finds its weights in each training step anew: there are none for other samples.")
    return weight


def distribution_data(one: Study) -> dict[str, Any]:
    """Return the weights of each class as quantiles (5, 25, 50, 75, 95 %), held-out and of the last epoch recorded."""
    k = len(one.classes)
    data: dict[str, Any] = {"classes": list(one.classes)}
    if one.probe is not None and one.weight is not None:
        data["held-out"] = quantiles(own_weight(one), labels(one), k)
    if one.history is not None and one.history.y is not None and one.config.scheme.name != "uniform":
        last = one.history.values["weight"][-1]
        known = np.isfinite(last)
        data["training"] = quantiles(last[known], one.history.y[known], k)
        data["epoch"] = int(one.history.epoch[-1])
    if len(data) == 1:
        own_weight(one)
    return data


@styled
def distribution(one: Study) -> Drawn:
    """Draw the weights of each class: median, the middle half, and 5 to 95 %."""
    data = distribution_data(one)
    parts = [part for part in ("held-out", "training") if part in data]
    k = min(len(data["classes"]), CLASSES)
    figure, made = axes(columns=len(parts), width=3.6, height=max(2.4, 0.24 * k + 0.8))
    for ax, part in zip(made, parts, strict=True):
        for y, (p5, p25, p50, p75, p95) in enumerate(data[part][:k]):
            ax.plot([p5, p95], [y, y], color=COLOURS[0], lw=1)
            ax.plot([p25, p75], [y, y], color=COLOURS[0], lw=5, alpha=0.45, solid_capstyle="butt")
            ax.plot(p50, y, "|", color="black", ms=8, mew=1.6)
        title = "held-out samples" if part == "held-out" else f"training samples, epoch {data['epoch'] + 1}"
        ax.set(yticks=range(k), yticklabels=data["classes"][:k], title=title, xlabel="weight (1: as all others)")
        ax.invert_yaxis()
        ax.grid(axis="x")
        ax.axvline(1, color="#888888", lw=0.8, ls=":")
    return Drawn(figure, data)


def rate_steps(one: Study) -> list[int]:
    """Return the epochs in which the learning rate had fallen by a step."""
    return [after["epoch"] for before, after in pairwise(one.epochs) if after["lr"] * DROP <= before["lr"]]


def progress_data(one: Study, count: int = FOLLOWED) -> dict[str, Any]:
    """Return the weights of fixed training samples over the epochs: "epoch", "steps" of the learning rate, "panels".

    The panels are the weights of the clean samples and of their adversarial variants; of runs that noted only the one
    weight that training used, those of samples that held under the last epoch's attack, and of those that fell. Each
    has "weight" (epoch, sample), "places", "count", and "bands" (epoch, 3): the 10, 50 and 90 % quantiles of all.
    """
    if one.history is None:
        missing("This run kept no weight history (log.weights_every = 0, or its file is gone).")
    if one.config.scheme.name == "uniform":
        missing(f"{one.method} weighs all samples the same in every epoch.")
    values, n = one.history.values, len(one.history.place)
    if ADVERSARIAL_WEIGHT in values:
        everyone = np.ones(n, dtype=bool)
        own = one.omega.margin_from if one.omega else one.config.scheme.margin_from
        features = one.omega.features if one.omega else one.config.scheme.features
        if "margin" not in features:  # a loss is of both images, or of the adversarial one, wherever margins are taken
            parts = [("training samples", values["weight"], everyone)]
        else:
            parts = [(f"{own} samples", values["weight"], everyone)]
            parts += [("adversarial variants", values[ADVERSARIAL_WEIGHT], everyone)] if own == "clean" else []
    else:
        margin = values["adversarial margin"]
        known = np.isfinite(margin).any(axis=1).nonzero()[0]
        if not len(known):
            missing("No epoch of the weight history holds adversarial margins.")
        last = margin[known[-1]]
        kinds = (("hold under attack", last > 0), ("fall under attack", last <= 0))
        parts = [(name, values["weight"], which) for name, which in kinds]
    panels = [_panel(name, weight, which, one.history.place, count) for name, weight, which in parts]
    return {"epoch": one.history.epoch, "steps": rate_steps(one), "panels": panels}


def _panel(name: str, weight: Array, which: Array, place: Array, count: int) -> dict[str, Any]:
    """Return some of the samples `which`, the same whatever their weights, and the quantiles of all of them."""
    rows = np.flatnonzero(which)
    chosen = np.sort(np.random.default_rng(seed_of(0, "followed") % 2**32).permutation(rows)[:count])
    bands = [np.nanquantile(row, BANDS) if np.isfinite(row).any() else 3 * (np.nan,) for row in weight[:, rows]]
    shown = {"name": name, "weight": weight[:, chosen], "places": place[chosen], "count": len(rows)}
    return {**shown, "bands": np.array(bands, dtype=np.float64).reshape(-1, 3)}


@styled
def progress(one: Study, count: int = FOLLOWED) -> Drawn:
    """Draw the weights of fixed samples over the epochs, with the learning-rate steps marked."""
    data = progress_data(one, count)
    figure, made = axes(columns=len(data["panels"]))
    x = data["epoch"] + 1
    for ax, panel, colour in zip(made, data["panels"], (COLOURS[0], COLOURS[5]), strict=False):
        ax.plot(x, panel["weight"], color=colour, lw=0.5, alpha=0.4)
        ax.plot(x, panel["bands"][:, 1], color="black", lw=1.6)
        for step in data["steps"]:
            ax.axvline(step + 1, color="#888888", lw=0.8, ls=":")
        ax.set(title=f"{panel['name']} ({panel['count']:,})", xlabel="epoch (dotted: learning-rate step)")
        ax.set_ylabel("weight (1: as all others)")
    for ax in made[1:]:
        ax.sharey(made[0])
    return Drawn(figure, data)


def schemes_data(one: Study) -> dict[str, Any]:
    """Return the run's weights beside MAIL's, GAIRAT's and WMMR's on the same model: "own", "mail", ... (n,), "class
    means" (4, k), and Spearman's "correlation" of each with the run's own.
    """
    own, y = own_weight(one), labels(one)
    others = weights.heuristics(one.config, one.seen)
    means = [
        [values[y == c].mean() if (y == c).any() else np.nan for c in range(len(one.classes))]
        for values in (own, *others.values())
    ]
    correlation = {name: rank_correlation(own, values) for name, values in others.items()}
    return {
        "own": own,
        **others,
        "y": y,
        "class means": np.array(means),
        "correlation": correlation,
        "classes": list(one.classes),
    }


@styled
def schemes(one: Study) -> Drawn:
    """Draw the run's weights against each heuristic's, with rank correlation, and all of them by class."""
    data = schemes_data(one)
    figure, made = axes(columns=4, width=2.6, height=2.5)
    for ax, (name, title) in zip(made, HEURISTICS.items(), strict=False):
        rho = data["correlation"][name]
        ax.plot(data["own"], data[name], ".", color=COLOURS[0], ms=2, alpha=0.35, mew=0, rasterized=True)
        told = "no rank correlation: one never varies" if rho is None else f"rank correlation {rho:.2f}"
        ax.set(xlabel=f"weight of {one.method}", ylabel=f"weight of {title}", title=told)
    k = min(len(data["classes"]), CLASSES)
    for i, title in enumerate((one.method, *HEURISTICS.values())):
        made[3].plot(data["class means"][i][:k], range(k), MARKERS[i], color=COLOURS[i], ms=4, label=title)
    made[3].set(yticks=range(k), yticklabels=data["classes"][:k], xlabel="mean weight of a class", title="by class")
    made[3].invert_yaxis()
    made[3].legend(fontsize=6)
    return Drawn(figure, data)


def omega_data(one: Study) -> dict[str, Any]:
    """Return the learned weight function along margin directions (`weights.along_margins`), and what it reads."""
    if one.omega is None:
        missing(f"{one.method} has no weight network.")
    k = len(one.classes)
    return {
        **weights.along_margins(one.omega, k),
        "features": one.omega.features,
        "margin_from": one.omega.margin_from,
        "classes": list(one.classes),
    }


@styled
def omega(one: Study) -> Drawn:
    """Draw the raw weight from sure and right to sure and wrong: a line a rival class, black towards all at once."""
    data = omega_data(one)
    count = len(data["labels"])
    columns = min(count, 5)
    figure, made = axes(columns, -(-count // columns), width=2.2, height=1.9)
    for ax in made[count:]:
        ax.set_visible(False)
    lines: dict[int, Line2D] = {}
    for y, ax in zip(data["labels"], made, strict=False):
        for i, curve in enumerate(data["raw"][y]):
            rival = weights.rivals(count, int(y))[i] if data["features"] == "multiclass-margin" else -1
            look: dict[str, Any] = (
                {"color": "black", "lw": 1.6}
                if rival < 0
                else {"color": COLOURS[rival % 6], "lw": 0.9, "ls": DASHES[rival % 4]}
            )
            ax.plot(data["x of all"] if rival < 0 and "x of all" in data else data["x"], curve, **look)
            lines[rival] = Line2D([], [], **look, label="all at once" if rival < 0 else data["classes"][rival])
        if data["features"] in ("multiclass-margin", "margin"):
            ax.invert_xaxis()
        ax.set(title=data["classes"][y] if count > 1 else "", ylabel="raw weight", xlabel=READS[data["features"]])
    if count > 1:
        handles = [lines[rival] for rival in sorted(lines, key=lambda rival: (rival < 0, rival))]
        figure.legend(handles=handles, loc="outside lower center", ncols=6, title="rival")
    return Drawn(figure, data)


READS = {
    "multiclass-margin": "p_y − p_rival",
    "margin": "margin",
    "adversarial-loss": "adversarial loss",
    "loss-difference": "adversarial less clean loss",
}
