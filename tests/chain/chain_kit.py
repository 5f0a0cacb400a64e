"""Classifiers as users write them, with BatchNorm that has seen data: chains of known layers, and others."""

import torch
from torch import nn
from torch.nn import functional as F

from bilaw.models import fc1, normalized, small_cnn, tiny_cnn


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


class Written(nn.Module):
    """A forward of the user's own: functions, a normalisation written out, a view."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.Conv2d(6, 8, 3, dilation=2, groups=2)
        self.norm = nn.BatchNorm2d(6, affine=False)
        self.drop, self.out = nn.Dropout(0.5), nn.Linear(8 * 2 * 3, 4)
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]).view(1, 3, 1, 1))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = (x - self.mean) / 0.25
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        x = torch.relu(self.conv2(x) * 1.5 + 0.1)
        return self.out(self.drop(x.view(-1, 8 * 2 * 3)))


class Viewed(nn.Module):
    """Layers kept as attributes, and views by the batch's size."""

    def __init__(self, shape=False):
        super().__init__()
        self.shape, self.features, self.out = shape, nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU()), nn.Linear(16, 3)

    def forward(self, x):
        x = self.features(x)
        return self.out(x.reshape(x.shape[0], -1) if self.shape else x.view(x.size(0), -1))


def strided():
    """Return convolutions and poolings that step over rows, and leave some out."""
    return nn.Sequential(
        nn.Conv2d(1, 5, (3, 4), stride=(2, 3), padding=(1, 2)),
        nn.ReLU(),
        nn.BatchNorm2d(5),  # behind the ReLU: nothing takes it up
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Conv2d(5, 6, 2),
        nn.Flatten(),
        nn.ReLU(),
        nn.Linear(6 * 3 * 2, 3),
    )


class Attribute(nn.Module):
    """A mean that is neither parameter nor buffer."""

    def __init__(self):
        super().__init__()
        self.mean, self.out = torch.full((1, 4, 4), 0.5, dtype=torch.float64), nn.Linear(16, 3)

    def forward(self, x):
        return self.out((x - self.mean).flatten(1))


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(1, 4, 4, dtype=torch.bool))
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        return self.out((x * self.mask).flatten(1))


class Shared(nn.Module):
    """Two normalisations with one mean: of its two names the module tells one."""

    def __init__(self):
        super().__init__()
        self.conv, self.one, self.two = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.BatchNorm2d(2)
        self.two.running_mean = self.one.running_mean
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.two(self.one(self.conv(x))).flatten(1))


class Restless(nn.Module):
    """Dropout that no `eval` puts to rest."""

    def __init__(self):
        super().__init__()
        self.drop, self.out = nn.Dropout(0.9), nn.Linear(16, 3)
        nn.init.zeros_(self.out.weight)

    def train(self, mode=True):
        super().train(mode)
        self.drop.train()
        return self

    def forward(self, x):
        return self.out(self.drop(x.flatten(1)))


def twice_flat():
    """Return a chain that flattens what is flat already, in other rows than a convolution's channels."""
    layers = nn.Conv2d(1, 5, 3), nn.Flatten(), nn.Linear(20, 7), nn.ReLU(), nn.Flatten(), nn.Linear(7, 3)
    return nn.Sequential(*layers)


CHAINS = {
    "fc1": (lambda: fc1((3, 5, 4), 4), (3, 5, 4)),
    "tiny-cnn": (lambda: tiny_cnn((1, 28, 28), 10), (1, 28, 28)),
    "tiny-cnn, odd": (lambda: tiny_cnn((2, 15, 9), 3), (2, 15, 9)),
    "small-cnn": (lambda: small_cnn((3, 17, 8), 10), (3, 17, 8)),
    "normalized": (lambda: normalized(tiny_cnn((3, 8, 8), 4), [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]), (3, 8, 8)),
    "written": (Written, (3, 12, 14)),
    "viewed": (Viewed, (2, 4, 4)),
    "viewed by shape": (lambda: Viewed(shape=True), (2, 4, 4)),
    "twice flat": (twice_flat, (1, 4, 4)),
    "shared buffer": (Shared, (1, 4, 4)),
    "patches": (lambda: nn.Sequential(nn.Conv2d(1, 4, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)), (1, 30, 30)),
    "gaps": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3, 6), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)), (1, 10, 10)),
    "strided": (strided, (1, 15, 13)),
}


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 1, 3, padding=1), nn.Linear(16, 3)

    def forward(self, x):
        return self.out((x + self.conv(x)).flatten(1))


class Branching(nn.Module):
    """What it does depends on what it sees."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        x = x.flatten(1)
        return self.out(x if x.sum() > 0 else -x)


def tied():
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 3))
    net[2].weight = net[1].weight
    return net


def hooked():
    net = fc1((1, 4, 4), 3)
    net[1].register_forward_hook(lambda module, args, out: 2 * out)
    return net


OTHERS = {
    "attribute": Attribute,
    "restless": Restless,
    "residual": Residual,
    "branching": Branching,
    "tied": tied,
    "hooked": hooked,
    "normed weight": lambda: nn.Sequential(nn.Flatten(), nn.utils.parametrizations.weight_norm(nn.Linear(16, 3))),
    "unknown layer": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Softplus(), nn.Linear(4, 3)),
    "circular": lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), nn.Flatten()),
    "batch statistics": lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, track_running_stats=False)),
}


def build(make, seed=0, dtype=torch.float64):
    """Return the module with weights, and BatchNorm statistics, that no start has."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        made = make().to(dtype)
        for part in made.modules():
            if isinstance(part, nn.BatchNorm2d) and part.running_mean is not None:
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
                if part.affine:
                    nn.init.uniform_(part.weight, 0.5, 2)
                    nn.init.normal_(part.bias)
        return made


def images(shape, n=5, seed=1, dtype=torch.float64):
    return torch.rand(n, *shape, generator=seeded(seed), dtype=dtype)
