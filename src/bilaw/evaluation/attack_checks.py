"""The audit's second half: do the attacks behave as attacks on an honest classifier do (Carlini et al. 2019)?"""

from __future__ import annotations

from itertools import pairwise

import torch

from bilaw.attacks import PGD, fgsm
from bilaw.attacks.autoattack import Square
from bilaw.evaluation.findings import (
    FAIL,
    PASS,
    WARN,
    Finding,
    Outcome,
    Trial,
    counted,
    excess,
    logits,
    share,
    survivors,
)

BUDGETS = (0.25, 0.5, 1.0, 2.0)  # of eps
QUERIES = 500
STARTS = 5  # without a bound a single climb may end on a plateau of an honest network
PASSES = 1200  # that the checks of this file cost a sample, about
PROMISES = ("pgd", "kl", "weight-aware")  # how the names begin of iterated attacks on the loss that training descends
GRADIENT = (*PROMISES, "cw", "fgsm", "f-fgsm", "apgd", "fab")  # how the names of white boxes begin


def one_step(trial: Trial, seen: Outcome) -> Finding:
    """Is PGD at least as strong as FGSM?"""
    figure, verdict = excess(_pgd(trial), survivors(trial, fgsm(trial.eps, trial.norm), trial.eps, "fgsm"), 0.01, 0.02)
    if verdict != PASS:
        return Finding("one step", verdict, figure, "FGSM is stronger than PGD-20: gradients are masked", _white(seen))
    return Finding("one step", PASS, max(figure, 0.0), "PGD-20 is no weaker than FGSM")


def effort(trial: Trial, seen: Outcome) -> Finding:
    """Do more steps and restarts help, as they must, and not by much?"""
    usual = _pgd(trial)
    more = survivors(trial, PGD(trial.eps, trial.norm, steps=40, restarts=2), trial.eps, "pgd-40x2")
    figure, verdict = excess(more, usual, 0.01, 0.02)
    if verdict != PASS:
        meaning = "40 steps with 2 restarts are weaker than 20 steps: gradients mislead"
        return Finding("effort", verdict, figure, meaning, _white(seen))
    figure, verdict = excess(usual, more, 0.05, 1.0)
    if verdict != PASS:
        meaning = "40 steps with 2 restarts are far stronger than 20 steps: PGD-20 has not converged"
        return Finding("effort", WARN, figure, meaning, _promises(seen))
    return Finding("effort", PASS, max(figure, 0.0), "more steps and restarts are no weaker, and hardly stronger")


def losses(trial: Trial, seen: Outcome) -> Finding:
    """Is the cross-entropy as good a guide as the margin?"""
    figure, verdict = excess(_pgd(trial), _pgd(trial, objective="cw"), 0.05, 0.10)
    if verdict != PASS:
        meaning = f"PGD-20 on the margin is {figure:.1%} stronger than on the cross-entropy, which is a poor guide here"
        return Finding("losses", verdict, figure, meaning, _promises(seen))
    return Finding("losses", PASS, max(figure, 0.0), "PGD-20 on the cross-entropy is about as strong as on the margin")


def no_bound(trial: Trial, seen: Outcome) -> Finding:
    """Does a ball that holds every image leave nothing standing?"""
    eps = 1.0 if trial.norm == "linf" else trial.x[0].numel() ** 0.5
    attack = PGD(eps, trial.norm, steps=50, step_size=eps / 20)
    left = trial
    for start in range(STARTS):
        kept = survivors(left, attack, eps, f"no bound {start}")
        left = left.only(kept.to(trial.x.device))
        if not len(left.y):
            break
    figure, verdict = counted(len(left.y), len(trial.y), 0.0, 0.05)
    meaning = f"{figure:.1%} survive PGD without a bound: any image is allowed there, so the attack fails to find it"
    if verdict == PASS:
        meaning = "without a bound, PGD breaks every image"
    return Finding("no bound", verdict, figure, meaning, _white(seen))


def curve(trial: Trial, seen: Outcome) -> Finding:
    """Does accuracy fall as the ball grows?"""
    clean = (logits(trial, trial.x).argmax(dim=1) == trial.y).cpu()
    points = [clean, *(_pgd(trial, factor, steps=10) for factor in BUDGETS)]
    rises = [excess(after, before, 0.01, 0.03) for before, after in pairwise(points)]
    verdict = next((v for v in (FAIL, WARN) if any(v == rise[1] for rise in rises)), PASS)
    told = ", ".join(f"{share(robust):.1%}" for robust in points)
    meaning = f"accuracy at 0, {', '.join(f'{factor:g}' for factor in BUDGETS)} eps: {told}"
    if verdict != PASS:
        meaning += "; it rises where a larger ball must be worse"
    return Finding("budget curve", verdict, max(0.0, *(rise[0] for rise in rises)), meaning, _white(seen))


def black_box(trial: Trial, seen: Outcome) -> Finding:
    """Does an attack without gradients find what those with gradients miss?"""
    if "autoattack" in seen.robust:
        broken = int((seen.by["autoattack"] == seen.attacks["autoattack"].index("square")).sum())
        figure, verdict = counted(broken, len(seen.by["autoattack"]), 0.002, 0.01)
        what = f"Square breaks {figure:.2%} that APGD and FAB miss"
        concerned: tuple[str, ...] = ()
    else:
        # Cross-entropy alone may be a poor guide without any gradient being masked.
        left = (_pgd(trial) & _pgd(trial, objective="cw")).to(trial.x.device)
        square = Square(trial.eps, trial.norm, queries=QUERIES)
        kept = int(survivors(trial.only(left), square, trial.eps, "square").sum()) if bool(left.any()) else 0
        broken = int(left.sum()) - kept
        figure, verdict = counted(broken, len(left), 0.02, 0.05)
        what = f"Square with {QUERIES} queries breaks {figure:.1%} that PGD-20 misses"
        concerned = _white(seen)
    verdict = PASS if broken <= 1 else verdict  # a single one may be luck
    meaning = what if verdict == PASS else f"{what}: gradients are masked"
    return Finding("black box", verdict, figure, meaning, concerned)


def gap(trial: Trial, seen: Outcome) -> Finding:
    """Is any attack far stronger than what the other numbers rest on?"""
    promised = {name: robust for name, robust in seen.robust.items() if name.startswith(PROMISES)}
    least = min(seen.robust, key=lambda name: share(seen.robust[name]))
    if not promised or len(seen.robust) < 3:  # clean and one other
        return Finding("gap", PASS, 0.0, "no attack to compare PGD with was run")
    found = {name: excess(robust, seen.robust[least], 0.10, 0.15) for name, robust in promised.items()}
    worst = (PASS, WARN, FAIL)
    widest = max(found, key=lambda name: (worst.index(found[name][1]), found[name][0]))
    figure, verdict = found[widest]
    meaning = f"{least} is {figure:.1%} below {widest}" if widest != least else f"no attack is stronger than {widest}"
    if verdict != PASS:
        meaning += f": the gain under {widest} is not robustness"
    return Finding("gap", verdict, figure, meaning, tuple(name for name in found if found[name][1] == verdict))


def strays(trial: Trial, seen: Outcome) -> Finding:
    """Did every attack keep to its ball and to [0, 1]?"""
    figure = sum(seen.strays.values())
    if figure:
        names = [name for name, count in seen.strays.items() if count]
        meaning = f"{figure} points of {', '.join(names)} were outside the ball or [0, 1]; brought back, then judged"
        return Finding("strays", FAIL, figure, meaning, tuple(names))
    return Finding("strays", PASS, 0.0, "every adversarial point was inside its ball and [0, 1]")


def _pgd(trial: Trial, factor: float = 1.0, steps: int = 20, objective: str = "ce") -> torch.Tensor:
    eps = factor * trial.eps
    return survivors(trial, PGD(eps, trial.norm, steps, objective=objective), eps, f"{objective}-{steps} {factor:g}")


def _white(seen: Outcome) -> tuple[str, ...]:
    """Return the suites that rest on gradients."""
    return tuple(name for name in seen.robust if name.startswith(GRADIENT) or name == "autoattack")


def _promises(seen: Outcome) -> tuple[str, ...]:
    """Return the suites that rest on the loss that training descends."""
    return tuple(name for name in seen.robust if name.startswith((*PROMISES, "fgsm", "f-fgsm")))


GRADIENT_CHECKS = (one_step, effort, losses, no_bound, curve, black_box)
VERDICT_CHECKS = (gap, strays)
