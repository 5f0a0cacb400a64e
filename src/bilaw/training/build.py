"""From settings to the objects a step is made of."""

from __future__ import annotations

from dataclasses import replace

import torch

from bilaw.algorithm import Method
from bilaw.attacks import PGD, TopFraction, fast_fgsm, fgsm
from bilaw.attacks.none import NoAttack
from bilaw.config import META_OPTIMIZERS, AttackConfig, Config, LossConfig
from bilaw.losses import AdversarialCE, Mart, Plain, Trades
from bilaw.rng import seed_of
from bilaw.training.pretrained import load_omega
from bilaw.types import Attack, Loss, Scheme
from bilaw.weighting import Learned, NonParametric, Omega, Uniform, Weighting, WeightNet, preset
from bilaw.weighting.features import width


def build_loss(config: LossConfig) -> Loss:
    """Return the loss."""
    if config.name == "trades":
        return Trades(config.inv_lambda)
    if config.name == "mart":
        return Mart(config.strength)
    return Plain() if config.name == "plain" else AdversarialCE()


def build_attack(config: AttackConfig, loss: Loss) -> Attack:
    """Return the attack that suits `loss`: it climbs the loss's objective from the loss's start."""
    if not loss.attacked:
        return NoAttack()
    if config.name == "fgsm":
        return fgsm(config.eps, config.norm, loss.objective)
    if config.name == "f-fgsm":
        return fast_fgsm(config.eps, config.norm, loss.objective)
    start = config.start or loss.start
    return PGD(config.eps, config.norm, config.steps, config.step_size, start, loss.objective)


def build_weighting(config: Config, classes: int, device: torch.device | str = "cpu") -> Weighting:
    """Return the scheme and its burn-in; a weight network starts from weights drawn for the run's seed."""
    chosen = config.scheme
    if chosen.name in ("gairat", "wmmr", "mail"):
        weighting = preset(chosen.name, config.loss.name, chosen.preset)
        return weighting if chosen.burn_in is None else replace(weighting, burn_in=chosen.burn_in)
    burn_in = chosen.burn_in or 0.0
    if chosen.name == "uniform":
        return Weighting(Uniform())
    if chosen.name == "non-parametric":
        return Weighting(NonParametric(), burn_in)
    if chosen.name == "pretrained":
        return Weighting(load_omega(chosen.network or "", classes, device), burn_in)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_of(config.seed, "weight-network"))
        network = WeightNet(width(chosen.features, classes), chosen.hidden).to(device)
    optimizer = META_OPTIMIZERS[chosen.optimizer](network.parameters(), lr=chosen.lr, weight_decay=chosen.weight_decay)
    return Weighting(Learned(Omega(network, chosen.features, chosen.margin_from), optimizer), burn_in)


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
