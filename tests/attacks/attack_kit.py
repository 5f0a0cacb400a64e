"""What the attack tests share: linear classifiers, every attack of the table, and a module's whole state."""

import inspect
import random

import numpy as np
import torch
from torch import nn

from bilaw.attacks import ATTACKS
from bilaw.types import Batch

torch.set_num_threads(1)  # tensors this small only lose by sharing cores
HALVES = [torch.float16, torch.bfloat16]  # too coarse for an absolute slack: it would be as large as the ball
DUAL = {"linf": 1, "l2": 2}  # the norm q dual to the ball's
OWN_SETTINGS = {
    "weight-aware-pgd": {"weight": lambda logits_of, batch: lambda logits: logits[:, 0].sigmoid()},
    "apgd-ce": {"steps": 5},
    "apgd-t": {"steps": 5},
    "fab-t": {"steps": 5},
    "square": {"queries": 30},
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def build(name, eps, **settings):
    """Return that attack of the table, with those of `settings` that it knows."""
    parameters = inspect.signature(ATTACKS[name]).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = {key: value for key, value in settings.items() if anything or key in parameters}
    return ATTACKS[name](eps, **{**OWN_SETTINGS.get(name, {}), **known})


def draws(name, attack):
    """Is there chance in that attack of the table?"""
    return name not in ("none", "fab-t") and getattr(attack, "start", "uniform") != "zero"


def batch_of(x, y):
    return Batch(x, torch.as_tensor(y), torch.arange(len(x)))


class Linear:
    """z = W x + b, and what theory says of attacks on it."""

    def __init__(self, classes, features, seed=0, dtype=torch.float64):
        drawn = seeded(seed)
        self.w = torch.randn(classes, features, generator=drawn, dtype=torch.float64).to(dtype)
        self.b = torch.randn(classes, generator=drawn, dtype=torch.float64).to(dtype)

    def __call__(self, x):
        return x.flatten(1) @ self.w.T + self.b

    def rises(self, y):
        """Return w_j - w_y for each sample and class: (B, k, d)."""
        return self.w - self.w[y][:, None]

    def gains(self, x, y):
        """Return z_j - z_y for each sample and class, -inf at j = y: (B, k)."""
        z = self(x)
        return (z - z.gather(1, y[:, None])).scatter(1, y[:, None], -torch.inf)

    def best_margin(self, x, y, eps, norm):
        """Return max_j z_j - z_y + eps ||w_j - w_y||_q, the optimum over the ball without the box: (B,)."""
        return (self.gains(x, y) + eps * self.rises(y).norm(p=DUAL[norm], dim=2)).amax(1)

    def best_margin_in_box(self, x, y, eps):
        """Return the optimum over the linf ball cut to [0, 1]: (B,)."""
        flat, rises = x.flatten(1)[:, None], self.rises(y)
        up, down = (flat + eps).clamp_max(1) - flat, (flat - eps).clamp_min(0) - flat
        return (self.gains(x, y) + torch.maximum(rises * up, rises * down).sum(2)).amax(1)


def assert_inside(x_adv, x, eps, norm):
    """Assert that x_adv is in [0, 1] and, but for a few units in the last place, in the ball."""
    assert x_adv.shape == x.shape
    assert x_adv.dtype == x.dtype
    assert ((x_adv >= 0) & (x_adv <= 1)).all()  # false for NaN
    size = (x_adv.double() - x.double()).flatten(1).norm(p={"linf": torch.inf, "l2": 2}[norm], dim=1)
    ulps = 4 * torch.finfo(x.dtype).eps * {"linf": 1, "l2": x[0].numel() ** 0.5}[norm]
    slack = eps * 1e-5 if x.dtype in HALVES else ulps
    assert (size <= eps + (slack if eps > 0 else 0)).all(), (size, eps)


def cw(logits, y):
    own = logits.gather(1, y[:, None])[:, 0]
    return logits.scatter(1, y[:, None], -torch.inf).amax(1) - own


class Net(nn.Module):
    """BatchNorm, dropout, a frozen layer: everything an attack could disturb."""

    def __init__(self, channels=2, classes=3, fail_at=None):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5))
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.head = nn.Linear(4, classes)
        self.calls, self.fail_at = 0, fail_at

    def forward(self, x):
        features = self.body(x).mean((2, 3))
        self.calls += 1
        if self.calls == self.fail_at:
            raise ArithmeticError("inside the model")
        return self.head(torch.tanh(self.frozen(features)))


def net(fail_at=None):
    """Return a `Net` of mixed modes, with BatchNorm statistics and `.grad` of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        model = Net(fail_at=fail_at)
        model.body[1].running_mean.normal_()
        model.body[1].running_var.uniform_(0.5, 2)
        for p in model.head.parameters():
            p.grad = torch.randn_like(p)
    model.train()
    model.body[3].eval()
    model.head.eval()
    return model


def images(n=4):
    drawn = seeded(9)
    return batch_of(torch.rand(n, 2, 4, 4, generator=drawn), torch.arange(n) % 3)


def state_of(model):
    """Return everything of a module, and of the global generators, that a caller could miss afterwards."""
    return {
        "modes": [part.training for part in model.modules()],
        "values": {name: value.clone() for name, value in model.state_dict().items()},
        "places": [value.data_ptr() for value in model.state_dict().values()],
        "flags": [p.requires_grad for p in model.parameters()],
        "grads": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state()[1].tolist(),
        "python": random.getstate(),
    }


def assert_same_state(before, after):
    """Assert bit-equality, part by part."""
    for name in ("modes", "places", "flags", "numpy", "python"):
        assert before[name] == after[name], name
    assert torch.equal(before["torch"], after["torch"])
    assert before["values"].keys() == after["values"].keys()
    for name, value in before["values"].items():
        assert torch.equal(value, after["values"][name]), name
    for one, other in zip(before["grads"], after["grads"], strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)
