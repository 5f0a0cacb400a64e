"""Weighting schemes: raw weights per sample.

A new scheme is one file here and one line in `SCHEMES`. Those settings under `[scheme]` that it takes are passed by
name.
"""

from bilaw.signatures import Make
from bilaw.weighting.features import FEATURES
from bilaw.weighting.gairat import Gairat
from bilaw.weighting.learned import Learned
from bilaw.weighting.mail import Mail
from bilaw.weighting.nonparametric import NonParametric
from bilaw.weighting.normalise import normalise
from bilaw.weighting.omega import Omega, WeightNet
from bilaw.weighting.presets import PRESETS, Weighting, preset
from bilaw.weighting.uniform import Uniform
from bilaw.weighting.wmmr import Wmmr

SCHEMES: dict[str, Make] = {
    "uniform": Uniform,
    "gairat": Gairat,
    "wmmr": Wmmr,
    "mail": Mail,
    "non-parametric": NonParametric,
    "learned": Learned,
    "pretrained": Omega,
}

__all__ = [
    "FEATURES",
    "PRESETS",
    "SCHEMES",
    "Gairat",
    "Learned",
    "Mail",
    "NonParametric",
    "Omega",
    "Uniform",
    "WeightNet",
    "Weighting",
    "Wmmr",
    "normalise",
    "preset",
]
