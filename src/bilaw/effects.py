"""Settings that were chosen and change nothing: said aloud, rather than left for the user to find out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatch

from bilaw.config import Config

Rule = tuple[str, Callable[[Config], bool], str]

HEURISTICS = ("gairat", "wmmr", "mail")


def _learned(config: Config) -> bool:
    return config.scheme.name == "learned"


def _pgd(config: Config) -> bool:
    return "pgd" in (config.attack.name, config.meta.attack if config.scheme.learns else None)


# A setting (a pattern), when it has an effect, and what that takes. The first rule that says no is the reason given.
RULES: tuple[Rule, ...] = (
    ("loss.inv_lambda", lambda c: "trades" in (c.loss.name, c.meta.loss), "loss.name = trades"),
    ("loss.strength", lambda c: "mart" in (c.loss.name, c.meta.loss), "loss.name = mart"),
    ("attack.name", lambda c: c.loss.name != "plain", "a loss that is attacked"),
    ("attack.steps", _pgd, "attack.name = pgd"),
    ("attack.step_size", _pgd, "attack.name = pgd"),
    ("attack.start", _pgd, "attack.name = pgd"),
    ("attack.fraction", lambda c: c.scheme.name != "uniform", "a scheme that weighs samples"),
    ("scheme.preset", lambda c: c.scheme.name in HEURISTICS, "scheme.name = gairat, wmmr or mail"),
    ("scheme.burn_in", lambda c: c.scheme.name != "uniform", "a scheme other than uniform"),
    *((f"scheme.{name}", _learned, "scheme.name = learned") for name in ("features", "margin_from", "hidden")),
    *((f"scheme.{name}", _learned, "scheme.name = learned") for name in ("optimizer", "lr", "weight_decay")),
    ("meta.*", lambda c: c.scheme.learns, "a scheme that learns (learned or non-parametric)"),
    ("data.meta", lambda c: c.scheme.learns, "a scheme that learns (learned or non-parametric)"),
    ("guard.drop", lambda c: c.guard.overfitting != "off", "guard.overfitting = switch or report"),
    ("guard.min_ess", lambda c: c.scheme.name != "uniform", "a scheme other than uniform"),
)


def without_effect(config: Config, chosen: Iterable[str]) -> list[str]:
    """Return a note on each of the `chosen` settings (dotted names) that these settings make no use of.

    >>> without_effect(Config(), ["scheme.lr", "attack.eps"])
    ['scheme.lr has no effect here: it takes scheme.name = learned']
    """
    notes = []
    for name in chosen:
        idle = [needs for pattern, works, needs in RULES if fnmatch(name, pattern) and not works(config)]
        notes += [f"{name} has no effect here: it takes {needs}" for needs in idle[:1]]
    return notes
