"""Settings that were chosen and change nothing: refused as flags, noted in a file, which may serve many runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatch

from bilaw.config import HEURISTICS, SINGLE_STEP, Config

Rule = tuple[str, Callable[[Config], bool], str]


def _learned(config: Config) -> bool:
    return config.scheme.name == "learned"


def _learns(config: Config) -> bool:
    return config.scheme.learns


def _weighs(config: Config) -> bool:
    return config.scheme.name != "uniform"


def _losses(config: Config) -> set[str | None]:
    return {config.loss.name, config.meta.loss} if _learns(config) else {config.loss.name}


def _meta_attacks(config: Config) -> bool:
    return _learns(config) and (config.meta.loss or config.loss.name) != "plain"


def _attacks(config: Config) -> set[str]:
    """Return the names of the attacks that are run."""
    training = {config.attack.name} if config.loss.name != "plain" else set()
    return training | ({config.meta.attack or config.attack.name} if _meta_attacks(config) else set())


def _one_step(config: Config) -> bool:
    return not _attacks(config).isdisjoint(SINGLE_STEP)


def _pgd(config: Config) -> bool:
    """Tell whether PGD is run, or may be: that is how the guard answers overfitting."""
    return "pgd" in _attacks(config) or (_one_step(config) and config.guard.overfitting == "switch")


# A setting (a pattern), when it has an effect, and what that takes. The first rule that says no is the reason given.
RULES: tuple[Rule, ...] = (
    ("loss.inv_lambda", lambda c: "trades" in _losses(c), "loss.name = trades"),
    ("loss.strength", lambda c: "mart" in _losses(c), "loss.name = mart"),
    ("attack.name", lambda c: c.loss.name != "plain", "a loss that is attacked, not loss.name = plain"),
    ("attack.steps", _pgd, "attack.name = pgd, and a loss that is attacked"),
    ("attack.step_size", _pgd, "attack.name = pgd, and a loss that is attacked"),
    ("attack.start", _pgd, "attack.name = pgd, and a loss that is attacked"),
    ("attack.fraction", _weighs, "a scheme that weighs samples, not scheme.name = uniform"),
    ("scheme.preset", lambda c: c.scheme.name in HEURISTICS, "scheme.name = gairat, wmmr or mail"),
    ("scheme.burn_in", _weighs, "a scheme that weighs samples, not scheme.name = uniform"),
    *((f"scheme.{name}", _learned, "scheme.name = learned") for name in ("features", "margin_from", "hidden")),
    *((f"scheme.{name}", _learned, "scheme.name = learned") for name in ("optimizer", "lr", "weight_decay")),
    ("scheme.margin_from", lambda c: "margin" in c.scheme.features, "scheme.features = multiclass-margin or margin"),
    ("meta.*", _learns, "scheme.name = learned or non-parametric"),
    ("meta.attack", _meta_attacks, "a meta.loss that is attacked, not plain"),
    ("meta.at", _meta_attacks, "a meta.loss that is attacked, not plain"),
    ("data.meta", _learns, "scheme.name = learned or non-parametric"),
    ("guard.drop", lambda c: c.guard.overfitting != "off", "guard.overfitting = switch or report"),
    ("guard.drop", _one_step, "attack.name or meta.attack = f-fgsm or fgsm"),
    ("guard.min_ess", _weighs, "a scheme that weighs samples, not scheme.name = uniform"),
)


def without_effect(config: Config, chosen: Iterable[str]) -> dict[str, str]:
    """Return those of the `chosen` settings (dotted names) that `config` makes no use of, and what that would take.

    >>> without_effect(Config(), ["scheme.lr", "attack.eps"])
    {'scheme.lr': 'scheme.name = learned'}
    """
    idle = {}
    for name in chosen:
        needs = [needs for pattern, works, needs in RULES if fnmatch(name, pattern) and not works(config)]
        if needs:
            idle[name] = needs[0]
    return idle
