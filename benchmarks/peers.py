"""The peers' attacks, each given the plain module in eval mode, as its users would: images, labels in; points out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Points = Callable[[Tensor, Tensor], Tensor]
NAMES = {"linf": "Linf", "l2": "L2"}
PACKAGES = ("pyautoattack", "torchattacks", "foolbox", "adversarial-robustness-toolbox")


def batched(attack: Points, size: int) -> Points:
    """Return the attack on parts of `size`."""
    return lambda x, y: torch.cat([attack(a, b) for a, b in zip(x.split(size), y.split(size), strict=True)])


def torchattacks_pgd(module: nn.Module, case: Mapping[str, Any]) -> Points:
    import torchattacks

    make = {"linf": torchattacks.PGD, "l2": torchattacks.PGDL2}[case["norm"]]
    attack = make(module, eps=case["eps"], alpha=case["step"], steps=case["steps"], random_start=False)
    return batched(attack, case["batch"])


def foolbox_pgd(module: nn.Module, case: Mapping[str, Any]) -> Points:
    import foolbox

    make = {"linf": foolbox.attacks.LinfPGD, "l2": foolbox.attacks.L2PGD}[case["norm"]]
    attack = make(abs_stepsize=case["step"], steps=case["steps"], random_start=False)
    seen = foolbox.PyTorchModel(module, bounds=(0, 1))
    return batched(lambda x, y: attack(seen, x, y, epsilons=case["eps"])[1], case["batch"])


def art_classifier(module: nn.Module, x: Tensor) -> Any:
    from art.estimators.classification import PyTorchClassifier

    shape, loss = tuple(x.shape[1:]), nn.CrossEntropyLoss()
    kind = "gpu" if x.is_cuda else "cpu"
    return PyTorchClassifier(module, loss, shape, nb_classes=10, clip_values=(0, 1), device_type=kind)


def art_points(attack: Any) -> Points:
    """Return ART's attack, which takes and gives arrays."""

    def points(x: Tensor, y: Tensor) -> Tensor:
        found: np.ndarray[Any, Any] = attack.generate(x.cpu().numpy(), y.cpu().numpy())
        return torch.from_numpy(found).to(x)

    return points


def art_pgd(module: nn.Module, case: Mapping[str, Any], x: Tensor) -> Points:
    from art.attacks.evasion import ProjectedGradientDescent

    size = {"eps": case["eps"], "eps_step": case["step"], "max_iter": case["steps"], "batch_size": case["batch"]}
    norm = {"linf": np.inf, "l2": 2}[case["norm"]]
    return art_points(ProjectedGradientDescent(art_classifier(module, x), norm=norm, verbose=False, **size))


def pyautoattack(module: nn.Module, case: Mapping[str, Any]) -> Points:
    from pyautoattack import AutoAttack

    whole = case["part"] == "all"
    more = {"version": "standard"} if whole else {"version": "custom", "attacks": [case["part"]]}
    attack = AutoAttack(module, norm=NAMES[case["norm"]], eps=case["eps"], seed=0, **more)
    attack.apgd.n_restarts = 1  # as in its standard version; a custom one takes 5

    def points(x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = attack.run_standard_evaluation(x, y, batch_size=case["batch"])[0]
        return found

    return points


def torchattacks_autoattack(module: nn.Module, case: Mapping[str, Any]) -> Points:
    """Return its AutoAttack with `steps` iterations (None: as it comes, which is 10), whole or one component."""
    import torchattacks

    whole = torchattacks.AutoAttack(module, norm=NAMES[case["norm"]], eps=case["eps"], n_classes=10, seed=0)
    parts = dict(zip(("apgd-ce", "apgd-t", "fab-t", "square"), whole._autoattack.attacks, strict=True))
    for attack in parts.values():
        if case["steps"] is not None and hasattr(attack, "steps"):
            attack.steps = case["steps"]
    return batched(whole if case["part"] == "all" else parts[case["part"]], case["batch"])


def art_autoattack(module: nn.Module, case: Mapping[str, Any], x: Tensor) -> Points:
    from art.attacks.evasion import AutoAttack

    norm = {"linf": np.inf, "l2": 2}[case["norm"]]
    size = {"eps": case["eps"], "eps_step": 2 * case["eps"], "batch_size": case["batch"]}
    return art_points(AutoAttack(art_classifier(module, x), norm=norm, **size))
