"""The caller's random state: looked at, and put back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


@contextmanager
def unmoved() -> Iterator[Callable[[], bool]]:
    """Leave Python's, NumPy's and PyTorch's generators as found; what is given tells whether anything drew from them.

    >>> with unmoved() as moved:
    ...     before = moved(), random.random() < 2, moved()
    >>> before
    (False, True, True)
    """
    python, numpy, pytorch = _states()
    try:
        yield lambda: not _same((python, numpy, pytorch), _states())
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(pytorch)


def _states() -> tuple[Any, Any, torch.Tensor]:
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def _same(one: tuple[Any, Any, torch.Tensor], two: tuple[Any, Any, torch.Tensor]) -> bool:
    numpy = all(np.array_equal(a, b) for a, b in zip(one[1], two[1], strict=True))
    return bool(one[0] == two[0]) and numpy and torch.equal(one[2], two[2])
