"""Settings without effect: each rule against what the settings are made into."""

from __future__ import annotations

from typing import Any

import pytest

from bilaw.config import Config
from bilaw.effects import RULES, without_effect
from bilaw.settings import override, settings
from bilaw.training.build import build_method, build_weighting

BILAW = {"scheme.name": "learned"}
FAST = {"attack.name": "f-fgsm"}


@pytest.mark.parametrize(
    ("values", "name", "idle"),
    [
        ({}, "attack.steps", False),
        (FAST, "attack.steps", False),  # the guard may switch to PGD
        ({**FAST, "guard.overfitting": "off"}, "attack.steps", True),
        ({**FAST, **BILAW, "guard.overfitting": "off", "meta.attack": "pgd"}, "attack.steps", False),
        (
            {**FAST, **BILAW, "guard.overfitting": "off", "meta.attack": "pgd", "meta.loss": "plain"},
            "attack.start",
            True,
        ),
        ({"loss.name": "plain"}, "attack.steps", True),
        ({"loss.name": "plain"}, "attack.eps", False),  # the look at select attacks, too
        ({"loss.name": "plain"}, "attack.name", True),
        ({}, "loss.inv_lambda", True),
        ({"meta.loss": "trades"}, "loss.inv_lambda", True),
        ({"meta.loss": "trades", **BILAW}, "loss.inv_lambda", False),
        ({"loss.name": "mart"}, "loss.strength", False),
        ({}, "scheme.burn_in", True),
        ({"scheme.name": "mail"}, "scheme.preset", False),
        (BILAW, "scheme.preset", True),
        (BILAW, "scheme.margin_from", False),
        ({**BILAW, "scheme.features": "adversarial-loss"}, "scheme.margin_from", True),
        ({"scheme.name": "non-parametric"}, "scheme.lr", True),
        ({"scheme.name": "non-parametric"}, "meta.every", False),
        ({**BILAW, "meta.loss": "plain"}, "meta.at", True),
        (BILAW, "meta.at", False),
        ({}, "data.meta", True),
        ({}, "guard.drop", True),
        (FAST, "guard.drop", False),
        ({**BILAW, "meta.attack": "fgsm"}, "guard.drop", False),
        ({}, "guard.min_ess", True),
    ],
)
def test_a_setting_has_an_effect_or_not(values: dict[str, Any], name: str, idle: bool) -> None:
    assert (name in without_effect(override(Config(), values), [name])) is idle


@pytest.mark.parametrize("method", [("adversarial-ce", "uniform"), ("trades", "learned"), ("plain", "uniform")])
@pytest.mark.parametrize("attack", ["pgd", "fgsm"])
def test_what_is_said_to_be_idle_leaves_the_step_as_it_was(method: tuple[str, str], attack: str) -> None:
    loss, scheme = method
    base = override(
        Config(), {"loss.name": loss, "scheme.name": scheme, "attack.name": attack, "guard.overfitting": "off"}
    )
    others = {"attack.steps": 3, "attack.step_size": 0.01, "loss.inv_lambda": 2.0, "loss.strength": 2.0}
    for name, value in others.items():
        changed = override(base, {name: value})
        before, after = (build_method(c, build_weighting(base, 10).scheme) for c in (base, changed))
        same = (before.loss, before.attack) == (after.loss, after.attack)
        assert same is (name in without_effect(changed, [name])), name


def test_rules_are_of_settings_that_exist() -> None:
    for pattern, _, needs in RULES:
        assert pattern in settings() or pattern == "meta.*"
        assert needs


def test_the_defaults_all_have_an_effect_or_are_idle_with_a_reason() -> None:
    idle = without_effect(Config(), settings())
    assert "attack.eps" not in idle
    assert idle["meta.at"] == "scheme.name = learned or non-parametric"  # the first reason, not the second
