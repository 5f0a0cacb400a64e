"""The audit's first half: is it a classifier that can be attacked at all? A few passes, before any attack."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from bilaw.evaluation.findings import FAIL, PASS, WARN, Finding, Trial, accuracy, counted, logits, share
from bilaw.margins import largest_other
from bilaw.rng import generator

SAME = 1e-3  # of the logits' spread: what rounding may do, and chance may not
BETTER = 0.1  # of accuracy: how much better another range of inputs has to be, to be the model's own
DARK = 0.1  # the brightest pixel of images that were divided by 255 twice is far below


def mode(trial: Trial) -> Finding:
    """Was the module in eval mode?"""
    if trial.trained:
        return Finding("mode", WARN, 1.0, "the model came in train mode; it was judged in eval mode")
    return Finding("mode", PASS, 0.0, "the model is judged in eval mode")


def determinism(trial: Trial) -> Finding:
    """Does the same image get the same logits twice?"""
    one, two = logits(trial, trial.x), logits(trial, trial.x)
    figure = _apart(one, two)
    if figure > SAME:
        meaning = "the same images get other logits each time: a random defence has to be judged by its expectation"
        return Finding("determinism", FAIL, figure, meaning)
    return Finding("determinism", PASS, figure, "the same images get the same logits")


def company(trial: Trial) -> Finding:
    """Do an image's logits depend on the images beside it?"""
    x = trial.x[: min(len(trial.x), trial.batch)]
    together = trial._replace(batch=len(x))
    alone = trial._replace(batch=max(1, len(x) // 2))
    figure = _apart(logits(together, x), logits(alone, x))
    if figure > SAME:
        meaning = "an image's logits depend on the images beside it: is BatchNorm in train mode?"
        return Finding("company", FAIL, figure, meaning)
    return Finding("company", PASS, figure, "an image's logits do not depend on the images beside it")


def brightness(trial: Trial) -> Finding:
    """Do the images fill [0, 1]?"""
    figure = trial.x.max().item()
    if figure < DARK:
        return Finding("brightness", WARN, figure, "no pixel is bright: were the images divided by 255 twice?")
    return Finding("brightness", PASS, figure, "the images lie in [0, 1] and use it")


def inputs(trial: Trial) -> Finding:
    """Would the model rather have pixels in 0..255, or normalised ones?"""
    here = accuracy(trial, trial.x)
    channels = (0, *range(2, trial.x.ndim)) if trial.x.ndim > 2 else (0, 1)
    spread, mean = torch.std_mean(trial.x, dim=channels, keepdim=True)
    others = {
        "pixels in 0..255": accuracy(trial, trial.x * 255) - here,
        "normalised images": accuracy(trial, (trial.x - mean) / spread.clamp_min(1e-6)) - here,
    }
    best = max(others, key=lambda name: others[name])
    if others[best] > BETTER:
        meaning = f"the model does better on {best} than on images in [0, 1]: make its preprocessing a layer of it"
        return Finding("inputs", FAIL, others[best], meaning)
    return Finding("inputs", PASS, max(others[best], 0.0), "no other range of inputs suits the model better")


def outputs(trial: Trial) -> Finding:
    """Are they logits?"""
    drawn = generator(trial.seed, "audit", "outputs", device=trial.x.device)
    noise = torch.rand(trial.x.shape, generator=drawn, dtype=trial.x.dtype, device=trial.x.device)
    z = torch.cat([logits(trial, x) for x in (trial.x, 1 - trial.x, noise)])
    figure = share(((z >= 0) & (z <= 1)).all(dim=1))
    if figure == 1 and bool(((z.sum(dim=1) - 1).abs() < SAME).all()):
        meaning = "the outputs are probabilities: attack the logits, a softmax hides their gradient"
        return Finding("outputs", FAIL, figure, meaning)
    if figure == 1:
        meaning = "all outputs lie in [0, 1], also for noise: attack the logits, a squashed output hides their gradient"
        return Finding("outputs", FAIL, figure, meaning)
    return Finding("outputs", PASS, figure, "the outputs are not probabilities")


def gradients(trial: Trial) -> Finding:
    """Does the gradient that attacks climb exist?"""
    right = logits(trial, trial.x).argmax(dim=1) == trial.y
    dead = _dead(trial, lambda z, y: F.cross_entropy(z, y, reduction="none")) & right
    figure, verdict = counted(int(dead.sum()), int(right.sum()), 0.0, 0.02)
    if verdict != PASS:
        alive = share(~_dead(trial, lambda z, y: largest_other(z, y) - z.gather(1, y[:, None])[:, 0])[dead])
        why = "the logits saturate the softmax" if alive > 0.5 else "something in the model lets no gradient through"
        meaning = f"the loss of {figure:.1%} of the correct images has no gradient, zero or no number: {why}"
        return Finding("gradients", verdict, figure, meaning)
    return Finding("gradients", PASS, figure, "the loss of every image has a gradient")


def climbable(trial: Trial) -> bool:
    """Tell whether gradients reach the images at all; where they do not, only attacks without any can be run."""
    with torch.enable_grad():
        return trial.logits_of(trial.x[:1].detach().requires_grad_()).requires_grad


def _dead(trial: Trial, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return for which samples the loss has no gradient with respect to the image: (N,) bool."""
    found = []
    for x, y in zip(torch.split(trial.x, trial.batch), torch.split(trial.y, trial.batch), strict=True):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            value = loss(trial.logits_of(x), y).sum()
            gradient = torch.autograd.grad(value, x, allow_unused=True)[0] if value.requires_grad else None
        if gradient is None:
            found.append(torch.ones_like(y, dtype=torch.bool))
            continue
        flat = gradient.flatten(1)
        found.append(~flat.isfinite().all(dim=1) | (flat == 0).all(dim=1))
    return torch.cat(found)


def _apart(one: Tensor, two: Tensor) -> float:
    """Return the largest difference of two sets of logits, in units of their spread."""
    spread = one.std().item() if one.numel() > 1 else 1.0
    return (one - two).abs().max().item() / max(spread, 1e-12)


FORWARD_CHECKS = (mode, determinism, company, brightness, inputs, outputs, gradients)
