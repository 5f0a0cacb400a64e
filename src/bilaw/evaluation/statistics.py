"""How sure one can be of an accuracy."""

from __future__ import annotations

import math

from bilaw.errors import refuse

Z95 = 1.959963984540054  # the standard normal's 97.5 % point


def wilson(hits: int, n: int, z: float = Z95) -> tuple[float, float]:
    """Return Wilson's score interval (1927) of a proportion: it stays inside [0, 1] and is honest near its ends.

    >>> [round(end, 4) for end in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    if not 0 <= hits <= n or n < 1:
        refuse("hits of n", f"{hits} of {n}", "0 <= hits <= n and n >= 1")
    p, z2 = hits / n, z * z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
