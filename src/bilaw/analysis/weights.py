"""Weights on the probe's samples: the run's own, the heuristics', and the learned function along margin directions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bilaw.analysis.measures import Array
from bilaw.analysis.probe import Probe
from bilaw.config import HEURISTICS, Config
from bilaw.types import Adversarial, Scheme, Terms
from bilaw.weighting import Omega, preset

POINTS = 41  # of a curve
MOST = 10  # classes of a diagram
LOSSES = (-1.0, 6.0)  # the range of losses in a diagram


@torch.no_grad()
def weigh(scheme: Scheme, probe: Probe) -> Array:
    """Return the relative weights that a scheme gives the probe's samples: 1 means as much as all others.

    While training, weights are normalised over a batch; here over all samples.
    """
    terms = Terms(torch.zeros(len(probe.y)), torch.zeros(len(probe.y)), probe.logits, probe.logits_adv)
    found = Adversarial(probe.logits_adv, probe.survived, probe.facts["steps"])
    raw = scheme(terms, found, probe.y).double()
    mean = raw.mean()
    relative: Array = (raw / mean if mean > 0 else torch.ones_like(raw)).float().numpy()
    return relative


def own(config: Config, omega: Omega | None, probe: Probe) -> Array | None:
    """Return the weights of the run's own scheme; None if all weigh the same, or if only a training step can tell."""
    if omega is not None:
        return weigh(omega, probe)
    scheme = config.scheme
    return (
        weigh(preset(scheme.name, config.loss.name, scheme.preset).scheme, probe) if scheme.name in HEURISTICS else None
    )


def heuristics(config: Config, probe: Probe) -> dict[str, Array]:
    """Return what MAIL, GAIRAT and WMMR, as the paper sets them, would give the same samples on the same model."""
    loss = config.loss.name if config.loss.name != "plain" else "adversarial-ce"
    return {name: weigh(preset(name, loss).scheme, probe) for name in ("mail", "gairat", "wmmr")}


@torch.no_grad()
def along_margins(omega: Omega, classes: int) -> dict[str, Array]:
    """Return the raw weight along directions of its input: "x" (t,), "raw" (label, rival, t), "labels".

    Of the multi-class margin: from sure and right (p_y = 1) to sure and wrong (p_rival = 1) in a straight line, the
    margin p_y - p_rival falling from 1 to -1. The last rival is all others at once: p falls towards 1/k each, and the
    margin "x of all" (t,) from 1 to 0. Of scalar features: over their range.
    """
    if omega.features != "multiclass-margin":
        low, high = (-1.0, 1.0) if omega.features == "margin" else LOSSES
        x = torch.linspace(low, high, POINTS)
        return {"x": x.numpy(), "raw": _raw(omega, x[:, None]).view(1, 1, -1).numpy(), "labels": np.array([0])}
    shown, t = min(classes, MOST), torch.linspace(0, 1, POINTS)
    rows = []
    for y in range(shown):
        for rival in [j for j in range(shown) if j != y] + [-1]:
            p = torch.zeros(POINTS, classes)
            p[:, y] = 1 - t
            if rival < 0:
                p += t[:, None] / classes
            else:
                p[:, rival] = t
            rows.append(_raw(omega, p[:, y : y + 1] - p))
    raw = torch.stack(rows).view(shown, shown, POINTS)
    return {"x": (1 - 2 * t).numpy(), "x of all": (1 - t).numpy(), "raw": raw.numpy(), "labels": np.arange(shown)}


def rivals(labels: int, y: int) -> list[int]:
    """Return the rivals of class `y` in the order of `along_margins`; -1 is all others at once.

    >>> rivals(3, 1)
    [0, 2, -1]
    """
    return [*(j for j in range(labels) if j != y), -1]


def _raw(omega: Omega, features: Tensor) -> Tensor:
    mu = next(omega.network.parameters())
    raw: Tensor = omega.network(features.to(mu)).float().cpu()
    return raw
