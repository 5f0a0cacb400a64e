"""Robust image classifiers with learned sample weights."""

from bilaw.algorithm import Method, bilaw_step, weighted_step
from bilaw.attacks import PGD, fast_fgsm, fgsm, weight_aware_pgd
from bilaw.checks import make_batch
from bilaw.config import Config
from bilaw.evaluation.evaluate import Evaluation, evaluate
from bilaw.models import build
from bilaw.net import Net
from bilaw.training.fit import fit
from bilaw.version import __version__
from bilaw.weighting import Learned, Omega, WeightNet

__all__ = [
    "PGD",
    "Config",
    "Evaluation",
    "Learned",
    "Method",
    "Net",
    "Omega",
    "WeightNet",
    "__version__",
    "bilaw_step",
    "build",
    "evaluate",
    "fast_fgsm",
    "fgsm",
    "fit",
    "make_batch",
    "weight_aware_pgd",
    "weighted_step",
]
