"""A small data set, a small model with all that has state, and settings for runs of a second."""

import json
from pathlib import Path

import torch
from torch import nn

from bilaw import sealed
from bilaw.config import Config
from bilaw.datasets.data import Dataset, Images, Lazy
from bilaw.runs import Run
from bilaw.settings import override

N, K = 180, 4
CLASSES = tuple("abcd")


def images(n=N, seed=0):
    """Noise around one picture a class: learnable within a few steps, and never quite."""
    drawn = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % K
    pictures = torch.randint(60, 196, (K, 1, 8, 8), generator=torch.Generator().manual_seed(99))
    x = pictures[y] + torch.randint(-50, 51, (n, 1, 8, 8), generator=drawn)
    return Images(x.to(torch.uint8), y)


def dataset(kind="held"):
    held = images()
    train = held if kind == "held" else Lazy(lambda index: held.x[index], held.y, (1, 8, 8))
    return Dataset("noise", train, None, CLASSES, augment=True)


class Small(nn.Module):
    """Convolution, BatchNorm, dropout, linear."""

    def __init__(self, seed=0):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.body = nn.Sequential(
                nn.Conv2d(1, 6, 3, stride=2, padding=1),
                nn.BatchNorm2d(6),
                nn.ReLU(),
                nn.Dropout(0.1),
                nn.Flatten(),
                nn.Linear(96, K),
            )

    def forward(self, x):
        return self.body(x)


BASE = {
    "data.meta": 20,
    "data.select": 20,
    "attack.steps": 2,
    "attack.eps": 0.1,
    "select.steps": 2,
    "meta.batch": 16,
    "optim.batch": 20,
    "optim.epochs": 3,
    "compute.threads": 1,
    "compute.channels_last": False,
    "compute.device": "cpu",
    "log.to": "none",
}
BILAW = {
    "scheme.name": "learned",
    "scheme.lr": 0.01,
    "optim.ema": 0.9,
    "optim.clip": 1.0,
    "optim.epochs": 4,
    "log.checkpoint_steps": 3,
}


def config(**settings):
    return settings_of({name.replace("__", "."): value for name, value in settings.items()})


def settings_of(settings) -> Config:
    return override(Config(), {**BASE, **{name: _text(value) for name, value in settings.items()}})


def _text(value):
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def bits(tensors):
    """What two sets of tensors must have in common, NaNs included."""
    return {
        name: (str(value.dtype), tuple(value.shape), value.detach().cpu().contiguous().numpy().tobytes())
        for name, value in tensors.items()
    }


def left_behind(folder):
    """Everything in a run's folder that repeats to the bit."""
    run = Run(folder)
    path = max(run.checkpoints.glob("[0-9]*.safetensors"))
    last = sealed.read(path)
    tensors = {"checkpoint": last.tensors, "best": _read(run.best)}
    if run.omega.exists():
        tensors["omega"] = _read(run.omega)
    found = {f"{part} {name}": value for part, held in tensors.items() for name, value in bits(held).items()}
    found["standing"] = json.dumps(last.facts["standing"])
    for name in ("metrics.jsonl", "weights.f16", "config.toml", "weights.json", "splits.safetensors"):
        found[name] = (Path(folder) / name).read_bytes()
    return found


def _read(path):
    from safetensors.torch import load_file

    return load_file(path)


def differing(one, other):
    return sorted({name for name in one.keys() | other.keys() if one.get(name) != other.get(name)})
