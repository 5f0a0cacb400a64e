"""Settings that were chosen and change nothing: refused as flags, noted in a file, which may serve many runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatch

from bilaw.attacks import ATTACKS
from bilaw.config import HEURISTICS, NETWORKED, SINGLE_STEP, Config, offered
from bilaw.losses import LOSSES
from bilaw.signatures import takes
from bilaw.weighting import SCHEMES

Works = Callable[[Config], bool]
Rule = tuple[str, Works, str]


def _learned(config: Config) -> bool:
    return config.scheme.name == "learned"


def _scheme_takes(name: str) -> Works:
    def works(config: Config) -> bool:
        chosen = config.scheme.name
        return _learned(config) or (chosen not in (*HEURISTICS, *NETWORKED) and takes(SCHEMES[chosen], name))

    return works


def _learns(config: Config) -> bool:
    return config.scheme.learns


def _weighs(config: Config) -> bool:
    return config.scheme.name != "uniform"


def _loss_takes(name: str) -> Works:
    def works(config: Config) -> bool:
        of_mu = config.meta.loss if _learns(config) else None
        return any(takes(LOSSES[loss], name) for loss in {config.loss.name, of_mu or config.loss.name})

    return works


def _meta_attacks(config: Config) -> bool:
    return _learns(config) and (config.meta.loss or config.loss.name) != "plain"


def _attacks(config: Config) -> set[str]:
    """Return the names of the attacks that are run."""
    training = {config.attack.name} if config.loss.name != "plain" else set()
    return training | ({config.meta.attack or config.attack.name} if _meta_attacks(config) else set())


def _one_step(config: Config) -> bool:
    return not _attacks(config).isdisjoint(SINGLE_STEP)


def _attack_takes(name: str) -> Works:
    """Tell whether an attack that takes it is run, or PGD may be: that is how the guard answers overfitting."""

    def works(config: Config) -> bool:
        switches = _one_step(config) and config.guard.overfitting == "switch"
        return switches or any(takes(ATTACKS[attack], name) for attack in _attacks(config))

    return works


# A setting (a pattern), when it has an effect, and what that takes. The first rule that says no is the reason given.
RULES: tuple[Rule, ...] = (
    ("loss.inv_lambda", _loss_takes("inv_lambda"), "loss.name = trades"),
    ("loss.strength", _loss_takes("strength"), "loss.name = mart"),
    ("attack.name", lambda c: c.loss.name != "plain", "a loss that is attacked, not loss.name = plain"),
    ("attack.steps", _attack_takes("steps"), "attack.name = pgd, and a loss that is attacked"),
    ("attack.step_size", _attack_takes("step_size"), "attack.name = pgd, and a loss that is attacked"),
    ("attack.start", _attack_takes("start"), "attack.name = pgd, and a loss that is attacked"),
    ("attack.fraction", _weighs, "a scheme that weighs samples, not scheme.name = uniform"),
    ("scheme.preset", lambda c: c.scheme.name in HEURISTICS, "scheme.name = gairat, wmmr or mail"),
    ("scheme.burn_in", _weighs, "a scheme that weighs samples, not scheme.name = uniform"),
    *((f"scheme.{name}", _scheme_takes(name), "scheme.name = learned") for name in offered(Config().scheme)),
    (
        "scheme.margin_from",
        lambda c: not _learned(c) or "margin" in c.scheme.features,
        "scheme.features = multiclass-margin or margin",
    ),
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
