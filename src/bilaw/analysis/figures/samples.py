"""The samples themselves: least and most weighted, and where they lie in the space of likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bilaw.analysis.drawn import SHADES, Drawn, axes, styled
from bilaw.analysis.measures import Array, margins, pca, softmax
from bilaw.analysis.probe import LEVELS
from bilaw.analysis.study import Study, labels, missing
from bilaw.errors import refuse

COUNT = 10
POINTS = 2000  # of a cloud, drawn with a fixed seed: more only hide each other


def changes(one: Study, which: Array) -> Array:
    """Return adversarial less clean image of the probe's samples `which`: (n, channels, height, width)."""
    seen = one.seen
    size = seen.size.numpy()[which].reshape(-1, *[1] * (seen.change.ndim - 1))
    moved: Array = seen.change.numpy()[which].astype(np.float32) / LEVELS * size
    return moved


def ordering(one: Study) -> tuple[str, Array]:
    """Return what orders the samples, and its values: its weight or, without any, the margin turned round."""
    weight = one.weight
    return ("weight", weight) if weight is not None else ("margin", -margins(one.seen.logits_adv.numpy(), labels(one)))


def gallery_data(one: Study, count: int = COUNT) -> dict[str, Any]:
    """Return the least- and the most-weighted samples: "least", "most" -> places, clean, adversarial, difference,
    label, prediction, adversarial prediction, value. Without weights, the largest and smallest adversarial margins.
    """
    if one.images is None:
        missing("; ".join(one.notes) or "The images were not read.")
    by, values = ordering(one)
    order = np.argsort(values, kind="stable")
    data: dict[str, Any] = {"by": by, "classes": list(one.classes)}
    for name, which in (("least", order[:count]), ("most", order[::-1][:count])):
        moved, clean = changes(one, which), one.images[which]
        data[name] = {
            "place": one.seen.place.numpy()[which],
            "row": which,
            "value": values[which] if by == "weight" else -values[which],
            "clean": clean,
            "adversarial": np.clip(clean + moved, 0, 1),
            "difference": moved,
            "label": labels(one)[which],
            "prediction": one.seen.logits.argmax(1).numpy()[which],
            "adversarial prediction": one.seen.logits_adv.argmax(1).numpy()[which],
        }
    return data


def picture(image: Array) -> Array:
    """Return an image as matplotlib takes it: (H, W) or (H, W, 3)."""
    return image[0] if len(image) != 3 else np.moveaxis(image, 0, -1)


@styled
def gallery(one: Study, count: int = COUNT) -> Drawn:
    """Draw the least- and most-weighted samples: clean, adversarial, difference; class, prediction, under attack."""
    data = gallery_data(one, count)
    count = len(data["least"]["label"])
    figure, made = axes(count, 6, width=0.85, height=0.98)
    words = ("lightest", "heaviest") if data["by"] == "weight" else ("largest margin", "smallest margin")
    for block, name in enumerate(("least", "most")):
        held = data[name]
        for i in range(count):
            size = max(float(np.abs(held["difference"][i]).max()), 1e-12)
            shown = (held["clean"][i], held["adversarial"][i], held["difference"][i] / size / 2 + 0.5)
            names = [data["classes"][held[key][i]] for key in ("label", "prediction", "adversarial prediction")]
            for row, image in enumerate(shown):
                ax = made[(3 * block + row) * count + i]
                ax.imshow(picture(image), cmap="gray", vmin=0, vmax=1)
                ax.set(xticks=[], yticks=[])
                ax.grid(False)
                if i == 0:
                    ax.set_ylabel((f"{words[block]}\nclean", "adversarial", "difference")[row], fontsize=6)
            told = f"{names[0]}\n→ {names[1]} | {names[2]}"
            made[3 * block * count + i].set_title(told, fontsize=5, fontweight="normal", loc="center")
    return Drawn(figure, data)


def cloud(one: Study, most: int = POINTS) -> Array:
    """Return the rows of the probe that a cloud shows."""
    n = len(one.seen.y)
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).permutation(n)[:most])


def likelihoods_data(one: Study, classes: Sequence[int] | None = None, most: int = POINTS) -> dict[str, Any]:
    """Return the PCA of likelihoods: "at" (n, 3), "axes" (3, k), "share" of variance, "shade", "y", "row".

    With `classes`, only of samples of those classes.
    """
    known = range(len(one.classes))
    if classes is not None and (not classes or any(c not in known for c in classes)):
        refuse("classes", classes, f"class numbers out of 0..{len(one.classes) - 1}, at least one")
    rows = cloud(one, most) if classes is None else np.flatnonzero(np.isin(labels(one), list(classes)))[:most]
    if len(rows) < 2:
        missing("There are fewer than two samples of these classes.")
    at, main, share = pca(softmax(one.seen.logits.numpy().astype(np.float64))[rows])
    by, values = ordering(one)
    held = {
        "at": at,
        "axes": main,
        "share": share,
        "shade": values[rows] if by == "weight" else -values[rows],
        "by": by,
    }
    return {**held, "y": labels(one)[rows], "row": rows, "classes": list(one.classes)}


@styled
def likelihoods(one: Study, classes: Sequence[int] | None = None, dims: int = 2) -> Drawn:
    """Draw the PCA of likelihoods, shaded by weight (or by margin, where all weigh the same), in 2 or 3 dimensions."""
    if dims not in (2, 3):
        refuse("dims", dims, "2 or 3")
    data = likelihoods_data(one, classes)
    figure, made = axes(width=4.4, height=3.6)
    ax: Any = made[0]  # of three dimensions, matplotlib's types know little
    if dims == 3:
        ax.remove()
        ax = figure.add_subplot(projection="3d")
    cloud_of = ax.scatter(*data["at"][:, :dims].T, c=data["shade"], cmap=SHADES, s=5, lw=0, rasterized=True)
    for axis, share, name in zip(range(dims), data["share"], ("x", "y", "z"), strict=False):
        getattr(ax, f"set_{name}label")(f"axis {axis + 1}: {share:.0%} of variance")
    label = "weight (1: as all others)" if data["by"] == "weight" else "adversarial margin"
    figure.colorbar(cloud_of, ax=ax, label=label, shrink=0.8)
    return Drawn(figure, data)
