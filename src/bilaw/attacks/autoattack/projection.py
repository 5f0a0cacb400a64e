"""The shortest way from a point of the box to a hyperplane, inside the box: what FAB does in every step.

    min ||d||  such that  <w, x + d> = b  and  0 <= x + d <= 1

Both norms have solutions of one form: coordinate i moves in the direction of sign(c w_i), where c = b - <w, x>, by
min(lambda r_i, room_i). room_i is how far the box lets it, and r_i = 1 for linf, |w_i| for l2. What is left to find is
the number lambda >= 0 with g(lambda) = sum_i |w_i| min(lambda r_i, room_i) = |c|. g is increasing, concave and
piecewise linear, so Newton's method from 0 never overshoots, and ends at the solution; sorting the breakpoints, as
the paper does, costs several times as much.
"""

from __future__ import annotations

import torch
from torch import Tensor

NEWTON = 30  # iterations at most; fewer than ten are usual, and every one is exact on one more piece of g


def to_hyperplane(x: Tensor, w: Tensor, b: Tensor, norm: str) -> Tensor:
    """Return d (B, n) for points x (B, n) and hyperplanes w (B, n), b (B,).

    Where the box does not reach the hyperplane, d goes as far towards it as the box allows.

    >>> to_hyperplane(torch.tensor([[0.5, 0.9]]), torch.tensor([[1.0, 1.0]]), torch.tensor([1.8]), "linf")
    tensor([[0.3000, 0.1000]])
    """
    c = b - torch.linalg.vecdot(w, x)
    up = w.sign().mul_(torch.where(c >= 0, 1, -1).to(w.dtype)[:, None])  # what brings each coordinate nearer
    # 1 - x where up, x where down. Arithmetic on floats all through: comparisons of whole images are slow on a CPU.
    room = (0.5 - x).mul_(up).add_(0.5)
    slope = w.abs()
    if norm == "linf":
        moved = torch.minimum(_solve(slope, None, room, c.abs())[:, None], room)
    else:
        moved = torch.minimum(_solve(slope, slope, room, c.abs())[:, None] * slope, room)
    return moved.mul_(up)


def _solve(slope: Tensor, rate: Tensor | None, room: Tensor, goal: Tensor) -> Tensor:
    """Return lambda (B,), or the least that exhausts the room where the goal is out of reach; a rate of None is 1."""
    tiny, most = torch.finfo(goal.dtype).tiny, torch.finfo(goal.dtype).max
    steepness = slope if rate is None else slope * rate
    total = steepness.sum(dim=1)
    # As if nobody's room ended; finite, for infinity times a rate of zero would be no number.
    found = torch.where((goal > 0) & (total > tiny), goal / total.clamp_min(tiny), 0).clamp_max(most)
    for _ in range(NEWTON):
        moved = found[:, None] if rate is None else found[:, None] * rate
        missing = goal - torch.linalg.vecdot(slope, torch.minimum(room, moved))
        free = (room - moved).sign_().clamp_min_(0)
        pace = torch.linalg.vecdot(steepness, free)
        step = torch.where((pace > tiny) & (missing > 0), missing / pace.clamp_min(tiny), 0)
        found = (found + step).clamp_max(most)
        # On an accelerator a look costs more than an iteration.
        if goal.device.type == "cpu" and not bool((step > 0).any()):
            break
    return found
