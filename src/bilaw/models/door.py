"""What is asked of a classifier before anything is trained or judged with it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from bilaw.errors import refuse
from bilaw.net import Net

LARGE = 1e3  # logits beyond this leave softmax no gradient


def check_model(net: Net, x: Tensor, classes: int) -> list[str]:
    """Refuse a module that is no classifier of images like `x` (B, ...) into `classes`; return what is worth knowing.

    It is tried once in each mode, on real images, and left as it was.
    """
    logits = _logits(net, x)
    _check_logits(logits, classes)
    if not net.theta:
        refuse("model", "without trainable parameters", "a model with parameters that require gradients")
    return [*_about_logits(logits), *_about_layers(net.module)]


def _logits(net: Net, x: Tensor) -> Tensor:
    try:
        with torch.no_grad():
            net.training()(x)
            return net.frozen()(x)
    except Exception as error:  # whatever the user's module raises
        if str(error).startswith("model output"):
            raise  # it did give something, and Net has refused that
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        refuse("model", type(net.module).__name__, f"a module that maps images {tuple(x.shape)} to logits ({reason})")


def _check_logits(logits: Tensor, classes: int) -> None:
    if logits.shape[1] != classes:
        refuse("model output", f"{logits.shape[1]} logits an image", f"{classes}, one for each class of the data")
    if not logits.is_floating_point():
        refuse("model output", str(logits.dtype), "floating-point logits")
    if not bool(logits.isfinite().all()):
        refuse("model output", "NaN or infinite", "finite logits (are the weights those of a diverged run?)")
    sums = logits.sum(dim=1)
    if bool(((logits >= 0) & (logits <= 1)).all()) and bool(((sums - 1).abs() < 1e-3).all()):
        refuse("model output", "probabilities", "logits: leave out the final softmax, which hides gradients")


def _about_logits(logits: Tensor) -> list[str]:
    notes = []
    largest = logits.abs().amax().item()
    if largest > LARGE:
        notes.append(f"logits reach {largest:.3g}: softmax saturates, and attacks find no gradient")
    if len(logits) > 1 and bool((logits == logits[0]).all()):
        notes.append("logits are the same for every image: does the model look at its input?")
    return notes


def _about_layers(module: nn.Module) -> list[str]:
    parts = list(module.modules())
    notes = []
    if any(isinstance(part, _BatchNorm) for part in parts):
        notes.append("the model has BatchNorm: attacks see it in eval mode, losses in train mode")
    if any(isinstance(part, _DropoutNd) and part.p > 0 for part in parts):
        notes.append("the model has dropout: off while attacking, on in losses, its masks a function of the seed")
    return notes
