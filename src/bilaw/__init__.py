"""Robust image classifiers with learned sample weights."""

from bilaw.algorithm import Method, bilaw_step, weighted_step
from bilaw.attacks import PGD, fast_fgsm, fgsm, weight_aware_pgd
from bilaw.checks import make_batch
from bilaw.config import Config
from bilaw.models import build
from bilaw.net import Net
from bilaw.training.fit import fit
from bilaw.weighting import Learned, Omega, WeightNet

__version__ = "0.1.0"

__all__ = [
    "PGD",
    "Config",
    "Learned",
    "Method",
    "Net",
    "Omega",
    "WeightNet",
    "bilaw_step",
    "build",
    "fast_fgsm",
    "fgsm",
    "fit",
    "make_batch",
    "weight_aware_pgd",
    "weighted_step",
]
