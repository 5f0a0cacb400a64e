"""Weights from a file: safetensors only, for a pickle can run any code."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from bilaw.errors import refuse

SETTING = "model.weights"


def load_weights(module: nn.Module, path: Path | str) -> None:
    """Load a state_dict that was saved as safetensors, every name and shape of it right."""
    held = read_safetensors(SETTING, path)
    own = {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}
    if wrong := sorted(held.keys() ^ own.keys()):
        whose = "the file" if wrong[0] in held else "the model"
        refuse(SETTING, str(path), f"weights of this model: only {whose} has {wrong[0]} ({len(wrong)} names differ)")
    for name, value in held.items():
        if value.shape != own[name].shape:
            shapes = f"{name} is {tuple(value.shape)} there and {tuple(own[name].shape)} here"
            refuse(SETTING, str(path), f"weights of this model: {shapes}")
    module.load_state_dict(held, strict=False)


def read_safetensors(setting: str, path: Path | str) -> dict[str, Tensor]:
    """Return the tensors of a file, refusing anything that is not safetensors."""
    try:
        held: dict[str, Tensor] = load_file(path)
    except FileNotFoundError:
        refuse(setting, str(path), f"a file that exists (looked in {Path.cwd()})")
    except (SafetensorError, OSError) as error:
        reason = f"({error}); a pickle (.pt, .pth) is never loaded: convert it with safetensors.torch.save_file"
        refuse(setting, str(path), f"a safetensors file {reason}")
    return held
