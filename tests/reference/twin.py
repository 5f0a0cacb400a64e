"""The literal twin: Algorithm 1 (BiLAW) by double backward, slow and plain.

It shares no code with the package, so that the fast step can be held against it. Nothing is kept
from one line to the next: every forward is taken afresh, theta~ is a differentiable function of mu
(``create_graph=True``) and dL_val/dmu is whatever autograd says it is.

BatchNorm: eval mode in the attacks, train mode everywhere else. All forwards but those of line 8 run
on clones of the buffers, so the running statistics move once a step and only there.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Parameters = dict[str, Tensor]
cross_entropy = partial(F.cross_entropy, reduction="none")  # -log p_y, per sample


class LiteralStep(NamedTuple):
    """What one step computed; gradients are listed in the order of ``parameters()``."""

    mu_grad: list[Tensor]  # line 6: dL_val/dmu, by double backward through theta~
    weights: Tensor  # w, normalised, used on line 5
    weights_next: Tensor  # w', normalised, used on line 8
    theta_grad: list[Tensor]  # line 8: gradient of the loss, before momentum and weight decay
    x_adv: Tensor  # training attack, at theta
    xv_adv: Tensor  # meta attack, at theta~ (or at theta)


def logits(module: nn.Module, theta: Parameters, x: Tensor, *, training: bool) -> Tensor:
    """f(x; theta), leaving the module's own parameters, buffers and mode untouched."""
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    modes = [(part, part.training) for part in module.modules()]
    module.train(training)
    z = torch.func.functional_call(module, {**theta, **buffers}, (x,))
    for part, was_training in modes:
        part.training = was_training
    return z


def kl(z: Tensor, z_adv: Tensor) -> Tensor:
    """KL(p || p_adv), per sample, neither side detached."""
    log_p, log_q = z.log_softmax(1), z_adv.log_softmax(1)
    return (log_p.exp() * (log_p - log_q)).sum(1)


def attack(
    module: nn.Module,
    theta: Parameters,
    x: Tensor,
    y: Tensor,
    generator: torch.Generator | None,
    *,
    loss: str,
    eps: float,
    steps: int,
    step_size: float,
) -> Tensor:
    """Linf PGD at constant theta, in eval mode; the last iterate is returned."""
    assert loss in ("adversarial-ce", "trades")
    theta = {name: value.detach() for name, value in theta.items()}

    def project(x_adv: Tensor) -> Tensor:
        return torch.clamp(x_adv, min=x - eps, max=x + eps).clamp(0, 1)

    if loss == "adversarial-ce":
        start = x + (2 * torch.rand(x.shape, generator=generator, dtype=x.dtype) - 1) * eps
    else:
        start = x + 0.001 * torch.randn(x.shape, generator=generator, dtype=x.dtype)
        z = logits(module, theta, x, training=False)
    x_adv = project(start)
    for _ in range(steps):
        x_adv = x_adv.detach().requires_grad_()
        z_adv = logits(module, theta, x_adv, training=False)
        objective = cross_entropy(z_adv, y) if loss == "adversarial-ce" else kl(z, z_adv)
        (gradient,) = torch.autograd.grad(objective.sum(), x_adv)
        x_adv = project(x_adv.detach() + step_size * gradient.sign())
    return x_adv.detach()


def loss_terms(
    forward: Callable[[Tensor], Tensor], x: Tensor, x_adv: Tensor, y: Tensor, *, loss: str, inv_lambda: float
) -> tuple[Tensor, Tensor]:
    """Per-sample (fixed, robust); the weights multiply the robust part only."""
    if loss == "adversarial-ce":
        robust = cross_entropy(forward(x_adv), y)
        return torch.zeros_like(robust), robust
    z = forward(x)  # the clean forward comes first: the order in which the buffers move
    z_adv = forward(x_adv)
    return cross_entropy(z, y), inv_lambda * kl(z, z_adv)


@torch.no_grad()
def weight_inputs(
    module: nn.Module,
    theta: Parameters,
    x: Tensor,
    x_adv: Tensor,
    y: Tensor,
    *,
    features: str,
    margin_from: str,
) -> Tensor:
    """What the weight network sees: constants with respect to theta, taken in train mode."""
    z = logits(module, theta, x, training=True)
    z_adv = logits(module, theta, x_adv, training=True)
    if features == "adversarial-loss":
        return cross_entropy(z_adv, y)[:, None]
    if features == "loss-difference":
        return (cross_entropy(z_adv, y) - cross_entropy(z, y))[:, None]
    p = {"clean": z, "adversarial": z_adv}[margin_from].softmax(1)
    p_y = p.gather(1, y[:, None])
    if features == "margin":  # Definition 1: p_y - max_{t != y} p_t
        return p_y - p.scatter(1, y[:, None], -torch.inf).amax(1, keepdim=True)
    assert features == "multiclass-margin"
    return p_y - p  # Definition 2: Delta_j = p_y - p_j


def normalised_weights(weight_net: nn.Module, inputs: Tensor) -> Tensor:
    """w_i = omega_i / sum_j omega_j, a differentiable function of mu."""
    raw = weight_net(inputs)
    return raw / raw.sum()


def look_ahead(
    module: nn.Module,
    theta: Parameters,
    beta: float,
    weights: Tensor,
    x: Tensor,
    x_adv: Tensor,
    y: Tensor,
    *,
    loss: str,
    inv_lambda: float,
) -> Parameters:
    """Line 5: theta~ = theta - beta grad L_tr(theta, w), plain SGD, keeping the graph back to w."""
    forward = partial(logits, module, theta, training=True)
    fixed, robust = loss_terms(forward, x, x_adv, y, loss=loss, inv_lambda=inv_lambda)
    training_loss = fixed.mean() + (weights * robust).sum()
    gradient = torch.autograd.grad(training_loss, list(theta.values()), create_graph=True)
    return {name: value - beta * g for (name, value), g in zip(theta.items(), gradient, strict=True)}


def validation_mean(
    module: nn.Module,
    theta: Parameters,
    xv: Tensor,
    xv_adv: Tensor,
    yv: Tensor,
    *,
    loss: str,
    inv_lambda: float,
) -> Tensor:
    """L_val(theta): the unweighted mean of fixed + robust."""
    forward = partial(logits, module, theta, training=True)
    fixed, robust = loss_terms(forward, xv, xv_adv, yv, loss=loss, inv_lambda=inv_lambda)
    return (fixed + robust).mean()


def validation_loss(
    module: nn.Module,
    weight_net: nn.Module,
    beta: float,
    x: Tensor,
    y: Tensor,
    xv: Tensor,
    yv: Tensor,
    x_adv: Tensor,
    xv_adv: Tensor,
    *,
    loss: str,
    inv_lambda: float = 6.0,
    features: str = "multiclass-margin",
    margin_from: str = "clean",
) -> Tensor:
    """L_val(theta~(mu)), both adversarial sets held fixed: detached, changing nothing, for differences."""
    theta = dict(module.named_parameters())
    inputs = weight_inputs(module, theta, x, x_adv, y, features=features, margin_from=margin_from)
    w = normalised_weights(weight_net, inputs)
    ahead = look_ahead(module, theta, beta, w, x, x_adv, y, loss=loss, inv_lambda=inv_lambda)
    return validation_mean(module, ahead, xv, xv_adv, yv, loss=loss, inv_lambda=inv_lambda).detach()


def literal_step(
    module: nn.Module,
    weight_net: nn.Module,
    theta_optimizer: torch.optim.Optimizer,
    mu_optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    xv: Tensor,
    yv: Tensor,
    *,
    loss: str,
    eps: float,
    steps: int,
    step_size: float,
    generator: torch.Generator | None,
    meta_generator: torch.Generator | None,
    inv_lambda: float = 6.0,
    meta_at: str = "theta~",
    features: str = "multiclass-margin",
    margin_from: str = "clean",
) -> LiteralStep:
    """Lines 4 to 8, on the batches line 4 drew; module (left in train mode) and weight_net change."""
    theta, mu = dict(module.named_parameters()), list(weight_net.parameters())
    beta = theta_optimizer.param_groups[0]["lr"]
    pgd = {"loss": loss, "eps": eps, "steps": steps, "step_size": step_size}
    kind = {"loss": loss, "inv_lambda": inv_lambda}

    # Line 4: the training batch, attacked at theta, and its weights w = normalise(omega_mu(Delta)).
    x_adv = attack(module, theta, x, y, generator, **pgd)
    inputs = weight_inputs(module, theta, x, x_adv, y, features=features, margin_from=margin_from)
    w = normalised_weights(weight_net, inputs)

    # Line 5: theta~, a function of mu through w.
    ahead = look_ahead(module, theta, beta, w, x, x_adv, y, **kind)

    # Line 6: mu <- mu - alpha dL_val(theta~)/dmu, with the adversarial validation set a constant.
    xv_adv = attack(module, {"theta~": ahead, "theta": theta}[meta_at], xv, yv, meta_generator, **pgd)
    mu_grad = torch.autograd.grad(validation_mean(module, ahead, xv, xv_adv, yv, **kind), mu)
    for parameter, gradient in zip(mu, mu_grad, strict=True):
        parameter.grad = gradient.clone()
    mu_optimizer.step()

    # Line 7: w' from the new mu and the same Delta, at the same theta.
    with torch.no_grad():
        w_next = normalised_weights(weight_net, inputs)

    # Line 8: the real update of theta with w'; the only forwards that move the running statistics.
    module.train()
    theta_optimizer.zero_grad()
    fixed, robust = loss_terms(module, x, x_adv, y, **kind)
    (fixed.mean() + (w_next * robust).sum()).backward()
    theta_grad = [parameter.grad.clone() for parameter in theta.values()]
    theta_optimizer.step()
    return LiteralStep([g.clone() for g in mu_grad], w.detach(), w_next, theta_grad, x_adv, xv_adv)
