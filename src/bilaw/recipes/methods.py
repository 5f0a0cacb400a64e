"""The methods the paper compares, each a loss and a weighting scheme."""

from __future__ import annotations

from dataclasses import replace

from bilaw.config import Config
from bilaw.errors import look_up

METHODS: dict[str, tuple[str, str]] = {
    "plain": ("plain", "uniform"),
    "at": ("adversarial-ce", "uniform"),
    "trades": ("trades", "uniform"),
    "mart": ("mart", "uniform"),
    "gairat": ("adversarial-ce", "gairat"),
    "wmmr": ("adversarial-ce", "wmmr"),
    "mail": ("adversarial-ce", "mail"),
    "non-parametric": ("adversarial-ce", "non-parametric"),
    "bilaw": ("adversarial-ce", "learned"),
    "bilaw-trades": ("trades", "learned"),
    "gair-trades": ("trades", "gairat"),
    "mail-trades": ("trades", "mail"),
}


def method(name: str, base: Config | None = None) -> Config:
    """Return `base` (default: the paper's protocol) with the loss and the scheme of the named method.

    >>> method("bilaw-trades").scheme.name
    'learned'
    """
    loss, scheme = look_up("method", name, METHODS)
    base = base or Config()
    return replace(base, loss=replace(base.loss, name=loss), scheme=replace(base.scheme, name=scheme))


def names(config: Config) -> tuple[str, str, str]:
    """Return data, model and method as one speaks of them."""
    of_method = {parts: name for name, parts in METHODS.items()}
    pair = config.loss.name, config.scheme.name
    return config.data.name, config.model.name, of_method.get(pair, "-".join(pair))
