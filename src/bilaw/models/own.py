"""Models by any name: of the table, or the user's own as `module:function`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bilaw.errors import at, refuse
from bilaw.imports import find
from bilaw.models import build
from bilaw.models.arguments import Shape

SETTING = "model.name"


def load_model(name: str, shape: Shape, classes: int, seed: int) -> nn.Module:
    """Return the model called `name`, its weights drawn from `seed`; the caller's random state stays as it was.

    The user's function is called with whichever of `shape` (channels, height, width) and `classes` it takes.
    """
    if ":" not in name:
        return _built(name, shape, classes, seed)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)  # before the import: a module may hold a model that is ready
        made = find(SETTING, name)
        if isinstance(made, nn.Module):
            return made
        if not callable(made):
            refuse(SETTING, name, f"a function that returns a torch.nn.Module, not a {type(made).__name__}")
        wanted = _wanted(made, name, shape=shape, classes=classes)
        torch.default_generator.manual_seed(seed)
        try:
            model = made(**wanted)
        except (Exception, SystemExit) as error:  # whatever the user's function raises
            refuse(SETTING, name, f"a function that builds a model ({type(error).__name__} in it: {error}{at(error)})")
    if not isinstance(model, nn.Module):
        refuse(SETTING, name, f"a function that returns a torch.nn.Module, not a {type(model).__name__}")
    return model


def _built(name: str, shape: Shape, classes: int, seed: int) -> nn.Module:
    try:
        return build(name, shape, classes, seed)
    except (RuntimeError, MemoryError, OverflowError, TypeError) as error:  # PyTorch's words for more than there is
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        refuse(SETTING, name, f"a model that fits into this machine's memory ({reason})")


def _wanted(function: Callable[..., Any], name: str, **offered: object) -> dict[str, object]:
    """Return those of the offered arguments that the function takes by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins tell nothing
        return {}
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return offered
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    required = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    unknown = [wanted for wanted in required if wanted not in offered or wanted not in named]
    if unknown:
        known = "shape (channels, height, width) and classes"
        refuse(SETTING, name, f"a function whose arguments without a default are out of {known}, not {unknown[0]}")
    return {key: value for key, value in offered.items() if key in named}
