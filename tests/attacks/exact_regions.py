"""ReLU networks of one hidden layer on [0, 1] and [0, 1]^2, cut into the regions on which they are linear.

There the points of class j are polygons (on the line: segments), so the distance from a point to the nearest
misclassified one is known exactly.
"""

import math

import torch
from attack_kit import seeded


class Relu:
    """z = V relu(W x + c) + b; the kinks lie all over the box."""

    def __init__(self, features, hidden=6, classes=3, seed=0):
        drawn = seeded(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=drawn, dtype=torch.float64)

        self.w = 3 * normal(hidden, features)
        self.c = -(self.w * torch.rand(hidden, features, generator=drawn, dtype=torch.float64)).sum(1)
        self.v = normal(classes, hidden)
        self.b = -(self.v * (grid(features) @ self.w.T + self.c).relu().mean(0)).sum(1)

    def __call__(self, x):
        return (x.flatten(1) @ self.w.T + self.c).relu() @ self.v.T + self.b

    def regions(self):
        """Return pairs of a polygon and the logits' (slopes, intercepts) on it."""
        box = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
        cut = [(box, ())]
        for w, c in zip(wide(self.w), self.c.tolist(), strict=True):
            cut = [
                (part, (*on, active))
                for polygon, on in cut
                for active in (0.0, 1.0)
                if (part := clip(polygon, w if active else [-u for u in w], c if active else -c))
            ]
        for polygon, on in cut:
            v = self.v * torch.tensor(on, dtype=torch.float64)
            yield polygon, v @ self.w, v @ self.c + self.b

    def distances(self, x, y, norm):
        """Return how far each sample is from the nearest point of the box where another class is ahead: (B,)."""
        found = torch.full((len(x),), torch.inf, dtype=torch.float64)
        for polygon, slopes, intercepts in self.regions():
            for own in y.unique().tolist():
                rows = (y == own).nonzero()[:, 0]
                for j in set(range(len(self.b))) - {own}:
                    (rise,) = wide((slopes[j] - slopes[own])[None])
                    wrong = clip(polygon, rise, float(intercepts[j] - intercepts[own]))
                    if wrong:
                        away = to_polygon(x[rows].flatten(1), wrong, norm)
                        found[rows] = torch.minimum(found[rows], away)
        return found


def wide(w):
    """Return planes over the line as planes over the square that do not look at the second coordinate."""
    return torch.cat([w, torch.zeros(len(w), 2 - w.shape[1], dtype=w.dtype)], dim=1).tolist()


def grid(features, n=41):
    axis = torch.linspace(0, 1, n, dtype=torch.float64)
    return torch.cartesian_prod(*[axis] * features).view(-1, features)


def clip(polygon, w, c):
    """Return the part of a convex polygon where <w, x> + c >= 0, or nothing if it has no area (Sutherland-Hodgman)."""
    value = [w[0] * p[0] + w[1] * p[1] + c for p in polygon]
    kept = []
    for i, (p, q) in enumerate(zip(polygon, polygon[1:] + polygon[:1], strict=True)):
        here, there = value[i], value[(i + 1) % len(polygon)]
        if here >= 0:
            kept.append(p)
        if here * there < 0:
            t = here / (here - there)
            kept.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
    return kept if len(kept) > 2 and area(kept) > 1e-12 else []


def area(polygon):
    pairs = zip(polygon, polygon[1:] + polygon[:1], strict=True)
    return abs(math.fsum(p[0] * q[1] - p[1] * q[0] for p, q in pairs)) / 2


def to_polygon(x, polygon, norm):
    """Return the distance of points outside a polygon to it; of x (B, 1) to its shadow on the line."""
    corners = torch.tensor(polygon, dtype=torch.float64)
    if x.shape[1] == 1:
        return torch.maximum(corners[:, 0].min() - x[:, 0], x[:, 0] - corners[:, 0].max()).clamp_min(0)
    edges = zip(corners, corners.roll(-1, 0), strict=True)
    return torch.stack([to_segment(x, p, q, norm) for p, q in edges]).amin(0)


def to_segment(x, p, q, norm):
    """Return the distance to p + t (q - p), 0 <= t <= 1, which is least at an end or where the formula has a kink."""
    away, along = p - x, q - p
    if norm == "l2":
        places = -(away @ along)[:, None] / along.square().sum().clamp_min(1e-300)
    else:
        (a, b), (u, v) = away.T, along
        places = torch.stack([-a / u, -b / v, (b - a) / (u - v), -(a + b) / (u + v)], dim=1)
    t = torch.cat([places.nan_to_num(0, 0, 0).clamp(0, 1), torch.zeros(len(x), 1), torch.ones(len(x), 1)], dim=1)
    moved = away[:, None] + t[:, :, None] * along
    return moved.norm(p={"linf": torch.inf, "l2": 2}[norm], dim=2).amin(1)
