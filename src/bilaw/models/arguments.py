"""What every builder asks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from bilaw.errors import refuse, whole_at_least

Shape = tuple[int, int, int]
"""An image's (channels, height, width)."""


def is_whole(value: object, least: int) -> bool:
    """Tell whether `value` is a whole number >= `least`; a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def image_shape(shape: Sequence[int], side: int = 1) -> Shape:
    """Return `shape` as (channels, height, width), refusing images smaller than `side` x `side`."""
    # A list is welcome: that is how a shape comes out of a configuration file.
    if not isinstance(shape, (tuple, list)) or len(shape) != 3 or not all(map(is_whole, shape, (1, side, side))):
        refuse("shape", shape, f"(channels, height, width) with channels >= 1, height and width >= {side}")
    channels, height, width = shape
    return channels, height, width


def class_count(classes: int) -> int:
    """Return `classes`, refusing fewer than two: there would be nothing to tell apart."""
    return whole_at_least("classes", classes, 2)
