"""Algorithm 1, and the plain weighted step it is compared with.

    L_tr(theta, w) = mean_i fixed_i(theta) + sum_i w_i robust_i(theta),   sum_i w_i = 1

BatchNorm: attacks run in eval mode, losses in train mode, and the buffers move once a step, by the one forward
that line 8 differentiates. Everything else works on copies of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bilaw.attacks.top_fraction import TopFraction
from bilaw.checks import check_images
from bilaw.derivatives import DERIVATIVES
from bilaw.errors import look_up, refuse, whole_at_least
from bilaw.net import Net, Theta, TrainForward
from bilaw.rng import generator, seed_of
from bilaw.types import Adversarial, Attack, Batch, Loss, MetaScheme, Scheme, Terms
from bilaw.weighting.normalise import normalise
from bilaw.weighting.uniform import Uniform

META_POINTS = {"theta~": "the look-ahead", "theta": "the current parameters"}


@dataclass(frozen=True)
class Method:
    """What a training step is made of; the second half matters only to a scheme that learns.

    `meta_loss` is the loss whose unweighted mean on held-out data mu descends (default: `loss`), `meta_attack` the
    attack on those data (default: `attack`, on whole batches), `meta_at` the parameters it attacks, `derivative` a
    name of `DERIVATIVES`, and every `meta_every`-th step learns.
    """

    loss: Loss
    attack: Attack
    scheme: Scheme | MetaScheme = Uniform()  # noqa: RUF009 - frozen, so sharing it is safe
    meta_loss: Loss | None = None
    meta_attack: Attack | None = None
    meta_at: str = "theta~"
    meta_every: int = 1
    derivative: str = "exact"

    def __post_init__(self) -> None:
        look_up("meta_at", self.meta_at, META_POINTS)
        look_up("derivative", self.derivative, DERIVATIVES)
        whole_at_least("meta_every", self.meta_every, 1)
        if not self.loss.attacked and not isinstance(self.scheme, Uniform):
            refuse("scheme", type(self.scheme).__name__, "Uniform for a loss without a robust part to weigh")


class Record(NamedTuple):
    """What a step saw, detached and still on the device."""

    loss: Tensor  # () the step objective that line 8 differentiated
    w: Tensor  # (B,) the weights of that objective
    s: Tensor | None  # (B,) alignment with the validation gradient; None without a meta step
    terms: Terms


def bilaw_step(
    net: Net,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    validation: Batch,
    method: Method,
    seed: int,
    t: int,
) -> Record:
    """Do step t of Algorithm 1: update mu through the look-ahead, then theta with the new weights, in place."""
    scheme, theta, beta = method.scheme, net.theta, float(optimizer.param_groups[0]["lr"])
    if not isinstance(scheme, MetaScheme):
        refuse(
            "scheme",
            type(scheme).__name__,
            "one that learns (learned, non-parametric); else use weighted_step",
        )
    if t % method.meta_every:
        return weighted_step(net, optimizer, batch, method, seed, t)
    _check_optimizer(net, optimizer)
    check_images(batch.x, batch.y)
    check_images(validation.x, validation.y)
    meta_loss, meta_attack = method.meta_loss or method.loss, method.meta_attack or _whole(method.attack)
    noise = seed_of(seed, "noise", t)

    # Line 4: (X, y) and (X^, y^) are given; the inner maximisation of the robust loss, at theta.
    adversarial = method.attack(net.frozen(), batch, generator(seed, "attack", t, device=batch.x.device))
    forward = net.training(noise=noise)
    terms = _with_clean(method.loss(forward, batch, adversarial), net, method, batch, noise)
    w = _weigh(scheme, terms, adversarial, batch.y)

    # Line 5: theta~ <- theta - beta grad_theta L_tr(theta, w): plain SGD, no momentum, no weight decay.
    gradient = _gradient(objective(terms, w.detach()), theta, retain_graph=True)
    look_ahead = {name: (p - beta * gradient[name]).detach().requires_grad_() for name, p in theta.items()}
    del gradient  # as large as theta, and no longer needed

    # Line 6: v = grad L_val(theta~), unweighted. L_tr is linear in w, so dL_val/dw_j = -beta s_j with
    # s_j = <v, grad_theta robust_j(theta)>: the whole batch's s is one directional derivative along v.
    attack_at = net.frozen(look_ahead if method.meta_at == "theta~" else theta)
    found = meta_attack(attack_at, validation, generator(seed, "meta-attack", t, device=validation.x.device))
    v = _gradient(_mean(meta_loss(net.training(look_ahead, noise=noise), validation, found)), look_ahead)

    def robust(at: Mapping[str, Tensor]) -> Tensor:
        return method.loss(net.training(at, noise=noise), batch, adversarial).robust

    s = DERIVATIVES[method.derivative](robust, theta, v)
    del look_ahead, v
    learned = scheme.learn(w, s, beta)

    # Line 7: w' = omega_mu'(Delta), Delta still at theta.
    with torch.no_grad():
        w = _weigh(learned, terms, adversarial, batch.y)

    # Line 8: theta <- theta - beta grad_theta L_tr(theta, w'), by the forward graph that line 5 kept.
    return _update(net, optimizer, forward, terms, w, s)


def weighted_step(
    net: Net, optimizer: torch.optim.Optimizer, batch: Batch, method: Method, seed: int, t: int
) -> Record:
    """Do step t with whatever weights the scheme gives now: AT, TRADES, GAIRAT, WMMR, MAIL, a frozen omega."""
    _check_optimizer(net, optimizer)
    check_images(batch.x, batch.y)
    noise = seed_of(seed, "noise", t)
    adversarial = method.attack(net.frozen(), batch, generator(seed, "attack", t, device=batch.x.device))
    forward = net.training(noise=noise)
    terms = _with_clean(method.loss(forward, batch, adversarial), net, method, batch, noise)
    with torch.no_grad():
        w = _weigh(method.scheme, terms, adversarial, batch.y)
    return _update(net, optimizer, forward, terms, w, None)


def _check_optimizer(net: Net, optimizer: torch.optim.Optimizer) -> None:
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    missing = [name for name, p in net.theta.items() if id(p) not in held]
    if missing or not net.theta:
        what = f"without {missing[0]}" if missing else "of a model without trainable parameters"
        refuse("optimizer", what, "every trainable parameter of the model (freeze others by requires_grad_(False))")


def _whole(attack: Attack) -> Attack:
    """Return the attack for held-out data: their loss is robust for every sample."""
    return attack.attack if isinstance(attack, TopFraction) else attack


def objective(terms: Terms, w: Tensor) -> Tensor:
    """Return mean_i(fixed_i) + sum_i w_i robust_i."""
    return terms.fixed.mean() + (w * terms.robust).sum()


def _mean(terms: Terms) -> Tensor:
    return (terms.fixed + terms.robust).mean()


def _weigh(scheme: Scheme, terms: Terms, adversarial: Adversarial, y: Tensor) -> Tensor:
    return normalise(_spare(scheme(terms, adversarial, y), adversarial), scheme.normalised)


def _spare(raw: Tensor, adversarial: Adversarial) -> Tensor:
    """Give samples that no attack touched the weight zero."""
    return raw if adversarial.attacked is None else raw * adversarial.attacked


def _with_clean(terms: Terms, net: Net, method: Method, batch: Batch, noise: int) -> Terms:
    """Add the clean logits where the scheme reads them and the loss had no use for them.

    They come from the train-mode network, as the loss's own would, and leave no trace in the buffers.
    """
    if terms.logits is not None or "clean" not in method.scheme.reads:
        return terms
    with torch.no_grad():
        return terms._replace(logits=net.training(noise=noise)(batch.x))


def _gradient(value: Tensor, at: Theta, retain_graph: bool = False) -> Theta:
    values = torch.autograd.grad(
        value, list(at.values()), retain_graph=retain_graph, allow_unused=True, materialize_grads=True
    )
    return dict(zip(at, values, strict=True))


def _update(
    net: Net,
    optimizer: torch.optim.Optimizer,
    forward: TrainForward,
    terms: Terms,
    w: Tensor,
    s: Tensor | None,
) -> Record:
    """Let the optimiser (momentum, weight decay) step theta on L_tr(theta, w), and the buffers follow."""
    loss = objective(terms, w)
    # An unused parameter keeps no gradient, as after `backward`, so that weight decay leaves it alone, too.
    gradients = torch.autograd.grad(loss, list(net.theta.values()), allow_unused=True)
    for parameter, gradient in zip(net.theta.values(), gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    optimizer.zero_grad()
    net.commit(forward)
    logits, logits_adv = (None if z is None else z.detach() for z in (terms.logits, terms.logits_adv))
    return Record(loss.detach(), w, s, Terms(terms.fixed.detach(), terms.robust.detach(), logits, logits_adv))
