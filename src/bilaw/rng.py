"""Randomness as a pure function of (seed, purpose, step): nothing to save, nothing to restore."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import torch


def seed_of(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed for one purpose, unrelated to that of any other.

    >>> seed_of(0, "attack", 7) == seed_of(0, "attack", 7), seed_of(0, "attack", 7) == seed_of(0, "attack", 8)
    (True, False)
    """
    text = "/".join(quote(str(part), safe="") for part in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a fresh generator on `device` for one purpose, such as `generator(seed, "attack", step)`."""
    return torch.Generator(device=device).manual_seed(seed_of(seed, *purpose))
