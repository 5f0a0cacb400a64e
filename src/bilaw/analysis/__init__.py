"""See the weights: every figure as a function of studies, which gives a matplotlib figure and its numbers.

    one = study("runs/fashion-mnist-tiny-cnn-bilaw-1")
    drawn = confusion_matrix(one)
    drawn.figure.savefig("confusion.pdf"); drawn.data["adversarial"]  # (k, k) counts

A figure that needs what a run does not have raises `Missing`, in words for its reader. matplotlib comes with
`pip install 'bilaw[report]'`.
"""

from importlib.util import find_spec

from bilaw.errors import Refused

if find_spec("matplotlib") is None:
    raise Refused("figures need matplotlib; pip install 'bilaw[report]' brings it")

from bilaw.analysis.drawn import Drawn
from bilaw.analysis.figures.errors import confusion_matrix, ranks
from bilaw.analysis.figures.robustness import budget, classes, comparison, scores
from bilaw.analysis.figures.samples import gallery, likelihoods
from bilaw.analysis.figures.training import audit, cost, curves
from bilaw.analysis.figures.weighing import distribution, omega, progress, schemes
from bilaw.analysis.study import Missing, Study, studies, study

OF_RUNS = {  # figures of several studies
    "scores": scores,
    "comparison": comparison,
    "budget": budget,
    "classes": classes,
    "ranks": ranks,
    "curves": curves,
    "cost": cost,
}
OF_RUN = {  # figures of one study
    "audit": audit,
    "confusion": confusion_matrix,
    "weights": distribution,
    "progress": progress,
    "schemes": schemes,
    "omega": omega,
    "gallery": gallery,
    "likelihoods": likelihoods,
}

__all__ = [
    "OF_RUN",
    "OF_RUNS",
    "Drawn",
    "Missing",
    "Study",
    "audit",
    "budget",
    "classes",
    "comparison",
    "confusion_matrix",
    "cost",
    "curves",
    "distribution",
    "gallery",
    "likelihoods",
    "omega",
    "progress",
    "ranks",
    "schemes",
    "scores",
    "studies",
    "study",
]
