"""The audit's second half: do the attacks behave as attacks on an honest classifier do (Carlini et al. 2019)?"""

from __future__ import annotations

from bilaw.attacks import PGD, fgsm
from bilaw.attacks.autoattack import Square
from bilaw.evaluation.findings import FAIL, PASS, WARN, Finding, Outcome, Trial, graded, logits, share, survivors

BUDGETS = (0.25, 0.5, 1.0, 2.0)  # of eps
QUERIES = 500
PROMISES = ("pgd", "kl", "f-fgsm", "fgsm")  # how the names begin of attacks on the loss that training descends
GRADIENT = ("pgd", "cw", "kl", "fgsm", "f-fgsm", "weight-aware", "apgd", "fab")  # how the names of white boxes begin


def one_step(trial: Trial, seen: Outcome) -> Finding:
    """Is PGD at least as strong as FGSM?"""
    pgd, single = _pgd(trial, trial.eps, 20), _share(trial, fgsm(trial.eps, trial.norm), "fgsm")
    figure = max(pgd - single, 0.0)
    if figure > 0.02:
        return Finding("one step", FAIL, figure, "FGSM is stronger than PGD-20: gradients are masked", _white(seen))
    return Finding("one step", PASS, figure, "PGD-20 is no weaker than FGSM")


def effort(trial: Trial, seen: Outcome) -> Finding:
    """Do more steps and restarts help, as they must, and not by much?"""
    usual = _pgd(trial, trial.eps, 20)
    more = _share(trial, PGD(trial.eps, trial.norm, steps=40, restarts=2), "effort")
    if more > usual + 0.01:
        meaning = "40 steps with 2 restarts are weaker than 20 steps: gradients mislead"
        return Finding("effort", FAIL, more - usual, meaning, _white(seen))
    figure = max(usual - more, 0.0)
    if figure > 0.05:
        meaning = "40 steps with 2 restarts are far stronger than 20 steps: PGD-20 has not converged"
        return Finding("effort", WARN, figure, meaning, _white(seen))
    return Finding("effort", PASS, figure, "more steps and restarts are no weaker, and hardly stronger")


def no_budget(trial: Trial, seen: Outcome) -> Finding:
    """Does a ball that holds every image leave nothing standing?"""
    eps = 1.0 if trial.norm == "linf" else trial.x[0].numel() ** 0.5
    attack = PGD(eps, trial.norm, steps=50, step_size=eps / 20)
    figure = share(survivors(trial, attack, eps, "no budget"))
    meaning = f"{figure:.1%} survive PGD without a bound: any image is allowed there, so the attack fails to find it"
    verdict = graded(figure, 0.0, 0.05)
    if verdict == PASS:
        meaning = "without a bound, PGD breaks every image"
    return Finding("no bound", verdict, figure, meaning, _white(seen))


def curve(trial: Trial, seen: Outcome) -> Finding:
    """Does accuracy fall as the ball grows?"""
    points = [_pgd(trial, factor * trial.eps, 10) for factor in BUDGETS]
    clean = share(logits(trial, trial.x).argmax(dim=1) == trial.y)
    rises = [after - before for before, after in zip([clean, *points], points, strict=False)]
    figure, verdict = max(0.0, *rises), graded(max(rises), 0.01, 0.03)
    told = ", ".join(f"{value:.1%}" for value in [clean, *points])
    meaning = f"accuracy at 0, {', '.join(f'{factor:g}' for factor in BUDGETS)} eps: {told}"
    if verdict != PASS:
        meaning += "; it rises where a larger ball must be worse"
    return Finding("budget curve", verdict, figure, meaning, _white(seen))


def black_box(trial: Trial, seen: Outcome) -> Finding:
    """Does an attack without gradients find what those with gradients miss?"""
    if "autoattack" in seen.robust:
        place = seen.attacks["autoattack"].index("square")
        broken = int((seen.by["autoattack"] == place).sum())
        figure = broken / len(seen.by["autoattack"])
        verdict = PASS if broken <= 1 else graded(figure, 0.002, 0.01)
        what = f"Square breaks {broken} samples that APGD and FAB miss ({figure:.2%})"
        concerned: tuple[str, ...] = ()
    else:
        losses = ("ce", "cw")  # cross-entropy alone may be a poor guide without any gradient being masked
        both = [PGD(trial.eps, trial.norm, steps=20, objective=loss) for loss in losses]
        left = survivors(trial, both[0], trial.eps, "pgd-20") & survivors(trial, both[1], trial.eps, "cw-20")
        some = trial._replace(x=trial.x[left], y=trial.y[left])
        square = Square(trial.eps, trial.norm, queries=QUERIES)
        kept = int(survivors(some, square, trial.eps, "square").sum()) if left.any() else 0
        figure = (int(left.sum()) - kept) / len(left)
        verdict = graded(figure, 0.02, 0.05)
        what = f"Square with {QUERIES} queries breaks {figure:.1%} that PGD-20 misses on two losses"
        concerned = _white(seen)
    meaning = what if verdict == PASS else f"{what}: gradients are masked"
    return Finding("black box", verdict, figure, meaning, concerned)


def gap(trial: Trial, seen: Outcome) -> Finding:
    """Is AutoAttack far stronger than what the other numbers rest on?"""
    others = {name: share(robust) for name, robust in seen.robust.items() if name.startswith(PROMISES)}
    if "autoattack" not in seen.robust or not others:
        return Finding("gap", PASS, 0.0, "not both of PGD and AutoAttack were run: nothing to compare")
    base = share(seen.robust["autoattack"])
    strongest = min(others, key=lambda name: others[name])
    figure = others[strongest] - base
    verdict = graded(figure, 0.10, 0.15)
    meaning = f"AutoAttack is {figure:.1%} below {strongest}"
    if verdict != PASS:
        meaning += ": the gain under PGD is not robustness"
    return Finding("gap", verdict, figure, meaning, tuple(others))


def strays(trial: Trial, seen: Outcome) -> Finding:
    """Did every attack keep to its ball and to [0, 1]?"""
    figure = sum(seen.strays.values())
    if figure:
        names = [name for name, count in seen.strays.items() if count]
        meaning = f"{figure} points of {', '.join(names)} were outside the ball or [0, 1]; brought back, then judged"
        return Finding("strays", FAIL, figure, meaning, tuple(names))
    return Finding("strays", PASS, 0.0, "every adversarial point was inside its ball and [0, 1]")


def _pgd(trial: Trial, eps: float, steps: int) -> float:
    return share(survivors(trial, PGD(eps, trial.norm, steps=steps), eps, f"pgd-{steps}"))


def _share(trial: Trial, attack: PGD, purpose: str) -> float:
    return share(survivors(trial, attack, attack.eps, purpose))


def _white(seen: Outcome) -> tuple[str, ...]:
    """Return the suites that rest on gradients."""
    return tuple(name for name in seen.robust if name.startswith(GRADIENT) or name == "autoattack")


GRADIENT_CHECKS = (one_step, effort, no_budget, curve, black_box)
VERDICT_CHECKS = (gap, strays)
