"""Configurations from Python: what a flag cannot say, and what does not go together."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from bilaw.config import (
    AttackConfig,
    ComputeConfig,
    Config,
    DataConfig,
    LogConfig,
    LossConfig,
    ModelConfig,
    OptimConfig,
    SchemeConfig,
)
from bilaw.recipes.methods import METHODS, method
from bilaw.settings import from_toml, groups, to_toml
from bilaw.training.build import build_method, build_weighting


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (DataConfig, "name", ""),
        (DataConfig, "name", None),
        (DataConfig, "name", "a\0b"),
        (DataConfig, "name", "\udcff"),
        (DataConfig, "root", "auto"),
        (DataConfig, "meta", 1),
        (DataConfig, "augment", 1),
        (DataConfig, "split_seed", 2**63),
        (ModelConfig, "weights", "auto"),
        (AttackConfig, "eps", True),
        (AttackConfig, "eps", 10**400),
        (AttackConfig, "eps", np.float64("nan")),
        (AttackConfig, "eps", "0.1"),
        (AttackConfig, "steps", 2**31),
        (AttackConfig, "steps", np.float32(2)),
        (AttackConfig, "fraction", 0),
        (AttackConfig, "step_size", 0),
        (SchemeConfig, "hidden", [64]),
        (SchemeConfig, "hidden", (0,)),
        (SchemeConfig, "burn_in", 1.1),
        (OptimConfig, "momentum", 1),
        (OptimConfig, "ema", 0),
        (OptimConfig, "clip", 0),
        (OptimConfig, "batch", 1),
        (ComputeConfig, "device", "auto"),
        (ComputeConfig, "threads", 1025),
        (LogConfig, "to", "wandb"),
        (LogConfig, "to", ("wandbb",)),
        (LogConfig, "checkpoint_minutes", 0),
        (Config, "seed", -1),
        (Config, "seed", True),
        (Config, "seed", 2**63),
    ],
)
def test_bad_values_are_refused_by_name(kind: Any, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"\b{name} = .* is not accepted; it takes "):
        kind(**{name: value})


@pytest.mark.parametrize("part", [part.name for part in fields(Config) if part.name != "seed"])
@pytest.mark.parametrize("value", [5, None, {}, Config()])
def test_a_part_is_of_its_own_kind(part: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{part} = .* it takes a bilaw\.config\.{part.capitalize()}Config"):
        Config(**{part: value})


def test_numpys_scalars_are_numbers() -> None:
    attack = AttackConfig(eps=np.float32(0.125), steps=np.int64(3))  # type: ignore[arg-type]
    data = DataConfig(augment=np.bool_(True))  # type: ignore[arg-type]
    config = Config(attack=attack, data=data, seed=np.uint8(7))  # type: ignore[arg-type]
    assert config == Config(attack=AttackConfig(eps=0.125, steps=3), data=DataConfig(augment=True), seed=7)
    assert [type(value) for value in (attack.eps, attack.steps, data.augment, config.seed)] == [float, int, bool, int]
    assert from_toml(to_toml(config)) == config


@pytest.mark.parametrize(
    ("scheme", "loss", "fits"),
    [
        (SchemeConfig("gairat"), "adversarial-ce", False),
        (SchemeConfig("wmmr"), "trades", False),
        (SchemeConfig("mail"), "mart", False),
        (SchemeConfig("learned"), "trades", True),
        (SchemeConfig("learned", features="loss-difference"), "trades", False),
        (SchemeConfig("learned", margin_from="adversarial"), "trades", False),
        (SchemeConfig("learned", features="margin"), "mart", True),
        (SchemeConfig("non-parametric"), "adversarial-ce", True),
        (SchemeConfig("uniform"), "trades", True),
        (SchemeConfig("mail", preset="official"), "trades", False),
    ],
)
def test_the_80_percent_variant_is_refused_just_where_it_cannot_work(
    scheme: SchemeConfig, loss: str, fits: bool
) -> None:
    config = Config(scheme=scheme, loss=LossConfig(loss))
    smaller = replace(config.attack, fraction=0.8)
    if fits:
        made = replace(config, attack=smaller)
        build_method(made, build_weighting(made, 10).scheme)  # the step agrees
        return
    with pytest.raises(ValueError, match=r"attack\.fraction = 0\.8 is not accepted; it takes 1 here"):
        replace(config, attack=smaller)


def test_official_settings_are_refused_where_there_are_none() -> None:
    with pytest.raises(ValueError, match=r"'mail with mart'.*official"):
        Config(loss=LossConfig("mart"), scheme=SchemeConfig("mail", preset="official"))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_a_configuration(name: str) -> None:
    config = method(name)
    assert (config.loss.name, config.scheme.name) == METHODS[name]


def test_every_group_and_setting_says_what_it_is_for() -> None:
    for part in fields(Config):
        if part.name != "seed":
            assert groups()[part.name].meaning.endswith(".")
