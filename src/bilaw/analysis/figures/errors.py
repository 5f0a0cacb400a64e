"""What a sample is taken for under attack: the rank its adversarial class had, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bilaw.analysis.drawn import CELLS, Drawn, axes, looks, styled
from bilaw.analysis.measures import Array, adversarial_ranks
from bilaw.analysis.measures import confusion as counted
from bilaw.analysis.study import Study, labels, missing

CLASSES = 25  # that a drawn matrix shows at most: those that are mistaken most


def ranks_data(studies: Sequence[Study]) -> dict[str, Any]:
    """Return how often the adversarial class was the i-th runner-up: run -> "rank" and "count" (k-1,), "eps"."""
    made = {}
    for one in (study for study in studies if study.probe is not None):
        count = adversarial_ranks(one.seen.logits.numpy(), one.seen.logits_adv.argmax(1).numpy())
        eps = None if one.config.loss.name == "plain" else one.config.attack.eps
        made[one.name] = {"rank": np.arange(1, len(count) + 1), "count": count, "eps": eps, "n": len(one.seen.y)}
    return made or missing("No run was probed, so nothing is known of its adversarial classes.")


@styled
def ranks(studies: Sequence[Study]) -> Drawn:
    """Draw the adversarial class against the rank of its clean logit (the paper's Figure 1b)."""
    data = ranks_data(studies)
    figure, (ax,) = axes(width=4.4, height=3)
    most = min(max(len(held["rank"]) for held in data.values()), 20)
    for place, (name, look) in enumerate(looks(list(data))):
        held, wide = data[name], 0.8 / len(data)
        trained = "plain" if held["eps"] is None else f"eps {held['eps']:.4g}"
        x = held["rank"][:most] + (place - (len(data) - 1) / 2) * wide
        ax.bar(
            x, held["count"][:most], wide, color=look["color"], edgecolor="white", lw=0.4, label=f"{name} ({trained})"
        )
    ax.set(xlabel="rank of the adversarial class among the clean logits (0: unchanged, left out)", ylabel="samples")
    ax.set_xticks(range(1, most + 1))
    ax.legend()
    return Drawn(figure, data)


def confusion_data(one: Study) -> dict[str, Any]:
    """Return what each class is taken for, as it is ("clean") and under PGD-20 ("adversarial"): (k, k) counts."""
    y, k = labels(one), len(one.classes)
    clean, adversarial = (logits.argmax(1).numpy() for logits in (one.seen.logits, one.seen.logits_adv))
    return {"clean": counted(y, clean, k), "adversarial": counted(y, adversarial, k), "classes": list(one.classes)}


def most_mistaken(counts: Array, most: int = CLASSES) -> Array:
    """Return the classes that a matrix shows: all, or those that take part in most mistakes, in their order."""
    wrong = counts - np.diag(np.diag(counts))
    return np.sort(np.argsort(-(wrong.sum(0) + wrong.sum(1)), kind="stable")[:most])


@styled
def confusion_matrix(one: Study) -> Drawn:
    """Draw the adversarial confusion matrix; its diagonal is left uncoloured."""
    data = confusion_data(one)
    shown = most_mistaken(data["adversarial"])
    counts = data["adversarial"][np.ix_(shown, shown)]
    size = max(3.2, 0.38 * len(shown) + 1)
    figure, (ax,) = axes(width=size + 0.6, height=size)
    mistakes = np.ma.masked_array(counts, np.eye(len(shown), dtype=bool))  # the diagonal would outshine all others
    most = max(int((counts - np.diag(np.diag(counts))).max()), 1)
    drawn = ax.imshow(mistakes, cmap=CELLS, vmin=0, vmax=most)
    for i, j in np.ndindex(*counts.shape) if len(shown) <= 12 else ():
        dark = i != j and counts[i, j] > most * 0.55
        ax.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=7, color="white" if dark else "black")
    names = [data["classes"][c] for c in shown]
    ax.set(xticks=range(len(shown)), yticks=range(len(shown)), yticklabels=names, ylabel="class")
    ax.set_xticklabels(names, rotation=45, ha="right")
    ax.set_xlabel(
        "taken for, under PGD-20"
        + ("" if len(shown) == len(data["classes"]) else f"; {len(shown)} of {len(data['classes'])} classes")
    )
    ax.grid(False)
    figure.colorbar(drawn, ax=ax, label="mistakes", shrink=0.8)
    return Drawn(figure, data)
