"""From settings to the objects a step is made of."""

from __future__ import annotations

from dataclasses import replace

import torch

from bilaw.algorithm import Method
from bilaw.attacks import ATTACKS, TopFraction
from bilaw.attacks.none import NoAttack
from bilaw.config import HEURISTICS, META_OPTIMIZERS, AttackConfig, Config, LossConfig, offered
from bilaw.losses import LOSSES
from bilaw.rng import seed_of
from bilaw.signatures import taken
from bilaw.training.pretrained import load_omega
from bilaw.types import Attack, Loss, Scheme
from bilaw.weighting import SCHEMES, Learned, Omega, Uniform, Weighting, WeightNet, preset
from bilaw.weighting.features import width


def build_loss(config: LossConfig) -> Loss:
    """Return the loss."""
    make = LOSSES[config.name]
    made: Loss = make(**taken(make, offered(config)))
    return made


def build_attack(config: AttackConfig, loss: Loss) -> Attack:
    """Return the attack that suits `loss`: it climbs the loss's objective from the loss's start."""
    if not loss.attacked:
        return NoAttack()
    make, start = ATTACKS[config.name], config.start or loss.start
    made: Attack = make(**taken(make, {**offered(config), "start": start, "objective": loss.objective}))
    return made


def build_weighting(config: Config, classes: int, device: torch.device | str = "cpu") -> Weighting:
    """Return the scheme and its burn-in; a weight network starts from weights drawn for the run's seed."""
    chosen = config.scheme
    if chosen.name in HEURISTICS:
        weighting = preset(chosen.name, config.loss.name, chosen.preset)
        return weighting if chosen.burn_in is None else replace(weighting, burn_in=chosen.burn_in)
    if chosen.name == "learned":
        scheme: Scheme = _learned(config, classes, device)
    elif chosen.name == "pretrained":
        scheme = load_omega(chosen.network or "", classes, device)
    else:
        make = SCHEMES[chosen.name]
        scheme = make(**taken(make, offered(chosen)))
    return Weighting(scheme, chosen.burn_in or 0.0)


def _learned(config: Config, classes: int, device: torch.device | str) -> Learned:
    chosen = config.scheme
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_of(config.seed, "weight-network"))
        network = WeightNet(width(chosen.features, classes), chosen.hidden).to(device)
    optimizer = META_OPTIMIZERS[chosen.optimizer](network.parameters(), lr=chosen.lr, weight_decay=chosen.weight_decay)
    return Learned(Omega(network, chosen.features, chosen.margin_from), optimizer)


def build_method(config: Config, scheme: Scheme) -> Method:
    """Return the step's ingredients with `scheme` in force."""
    loss = build_loss(config.loss)
    meta_loss = build_loss(replace(config.loss, name=config.meta.loss or config.loss.name))
    meta_attack = replace(config.attack, name=config.meta.attack or config.attack.name)
    attack = build_attack(config.attack, loss)
    if config.attack.fraction < 1 and not isinstance(scheme, Uniform):
        attack = TopFraction(attack, scheme, config.attack.fraction)
    return Method(
        loss=loss,
        attack=attack,
        scheme=scheme,
        meta_loss=meta_loss,
        meta_attack=build_attack(meta_attack, meta_loss),
        meta_at=config.meta.at,
        meta_every=config.meta.every,
        derivative=config.meta.derivative,
    )
