"""What is asked of a classifier before anything is trained or judged with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from bilaw.derivatives import DERIVATIVES
from bilaw.errors import Refused, reason, refuse
from bilaw.net import Net
from bilaw.types import LogitsOf

LARGE = 1e3  # logits beyond this leave softmax no gradient
OUTPUT = "model output"
DETACHED = "no .detach(), .data, numpy or torch.no_grad() on the way from one to the other"


def check_model(net: Net, x: Tensor, classes: int) -> list[str]:
    """Refuse a module that is no classifier of images like `x` (B, ...) into `classes`; return what is worth knowing.

    It is tried in each mode, on real images, with the gradients that attacks and training take, and left as it was.
    """
    if not net.theta:
        refuse("model", "without trainable parameters", "a model with parameters that require gradients")
    # Parameters that take no gradient: what is recomputed in the backward (checkpointing) would be at others, unseen.
    still = {name: value.detach() for name, value in net.theta.items()}
    with torch.random.fork_rng(devices=[]):
        logits = _input_gradient(net, net.frozen(), x, classes, OUTPUT)
        again = _input_gradient(net, net.frozen(), x, classes, OUTPUT)
    _input_gradient(net, net.training(still), x, classes, f"{OUTPUT} in train mode")
    _parameter_gradient(net, x)
    return [*_about_logits(logits, again), *_about_layers(net.module)]


def check_batch(net: Net, x: Tensor, setting: str) -> None:
    """Refuse a batch as small as `x` (B, ...) where the module cannot train on so few, as BatchNorm may not on one."""
    try:
        with torch.no_grad():
            net.training()(x)
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        refuse(setting, len(x), f"batches that the model can train on ({reason(error)})")


def check_derivative(net: Net, x: Tensor, name: str) -> None:
    """Refuse a directional derivative that the module's operations do not have."""

    def summed(theta: Mapping[str, Tensor]) -> Tensor:
        return net.training(theta)(x).sum(dim=1)

    try:
        DERIVATIVES[name](summed, net.theta, {key: torch.ones_like(p) for key, p in net.theta.items()})
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        if str(error).startswith("derivative = "):
            raise Refused(f"meta.{error}") from error
        other = " (central needs none)" if name == "exact" else ""
        refuse("meta.derivative", name, f"models whose every operation allows it{other}; this one: {reason(error)}")


def _input_gradient(net: Net, logits_of: LogitsOf, x: Tensor, classes: int, output: str) -> Tensor:
    """Return the logits at `x`, checked, having taken their gradient with respect to it, as attacks do."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        try:
            logits = logits_of(x)
        except (Exception, SystemExit) as error:  # whatever the user's module raises
            if str(error).startswith(OUTPUT):  # it did give something, and Net has refused that
                raise Refused(str(error).replace(OUTPUT, output, 1)) from error
            _refuse_model(net, x, error)
        _check_logits(logits.detach(), classes, output)
        if not logits.requires_grad:
            refuse(output, "detached from the images", f"logits that depend on the images through autograd: {DETACHED}")
        try:
            (gradient,) = torch.autograd.grad(logits.sum(), x, allow_unused=True)
        except (Exception, SystemExit) as error:  # whatever the user's module raises
            _refuse_model(net, x, error)
    if gradient is None:
        refuse(output, "detached from the images", f"logits that depend on the images through autograd: {DETACHED}")
    return logits.detach()


def _parameter_gradient(net: Net, x: Tensor) -> None:
    theta = list(net.theta.values())
    with torch.enable_grad():
        try:
            gradients = torch.autograd.grad(net.training()(x).sum(), theta, allow_unused=True)
        except (Exception, SystemExit) as error:  # whatever the user's module raises
            _refuse_model(net, x, error)
    if all(gradient is None for gradient in gradients):
        refuse(OUTPUT, "detached from the parameters", "logits that depend on the trainable parameters")


def _refuse_model(net: Net, x: Tensor, error: BaseException) -> NoReturn:
    accepted = f"a module that maps images {tuple(x.shape)} to logits ({reason(error)})"
    if "checkpoint" in str(error):
        accepted += "; switch activation checkpointing off: what is recomputed is at other parameters"
    dtypes = {p.dtype for p in net.theta.values()} - {x.dtype}
    if dtypes:
        accepted += f"; its parameters are {dtypes.pop()}, images {x.dtype}; make it .float()"
    refuse("model", type(net.module).__name__, accepted)


def _check_logits(logits: Tensor, classes: int, output: str) -> None:
    if logits.shape[1] != classes:
        refuse(output, f"{logits.shape[1]} logits an image", f"{classes}, one for each class of the data")
    if not logits.is_floating_point():
        refuse(output, str(logits.dtype), "floating-point logits")
    if not bool(logits.isfinite().all()):
        refuse(output, "NaN or infinite", "finite logits (are the weights those of a diverged run?)")
    sums = logits.sum(dim=1)
    if bool(((logits >= 0) & (logits <= 1)).all()) and bool(((sums - 1).abs() < 1e-3).all()):
        refuse(output, "probabilities", "logits: leave out the final softmax, which hides gradients")


def _about_logits(logits: Tensor, again: Tensor) -> list[str]:
    notes = []
    if not torch.equal(logits, again):
        notes.append(
            "logits in eval mode are random, they differ from one forward to the next: this run will not repeat to the "
            "same bits"
        )
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
