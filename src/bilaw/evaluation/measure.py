"""Measuring: a classifier and samples in, verdicts on every sample out, and an audit of them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bilaw.attacks import NoAttack
from bilaw.datasets.augment import to_unit
from bilaw.datasets.data import Images
from bilaw.errors import refuse
from bilaw.evaluation.attack_checks import GRADIENT_CHECKS, PASSES, VERDICT_CHECKS
from bilaw.evaluation.findings import FAIL, Finding, Outcome, Trial
from bilaw.evaluation.forward_checks import FORWARD_CHECKS, climbable
from bilaw.evaluation.plan import Plan
from bilaw.evaluation.store import Memory, Store
from bilaw.evaluation.suites import CLEAN, Suite
from bilaw.evaluation.verdicts import classify, judge
from bilaw.rng import generator
from bilaw.types import Batch, LogitsOf

SURVIVED, ALREADY = -1, -2  # in `by`: robust; wrong as it is


class Watch(NamedTuple):
    """Who is told what happens, as it happens."""

    work: Callable[[float, float], None] = lambda done, total: None  # network passes done, and in all as it looks now
    suite: Callable[[str, float, int], None] = lambda name, accuracy, n: None
    note: Callable[[str], None] = lambda text: None


class Subject(NamedTuple):
    """Who is judged: an eval-mode logits function and, where it is one, its module."""

    logits_of: LogitsOf
    module: nn.Module | None
    trained: bool  # was the module in train mode when it came?
    device: torch.device


class Verdicts(NamedTuple):
    """What became of every sample under one suite."""

    robust: Tensor  # (N,) bool
    by: Tensor  # (N,) int8: the place of the attack that broke it, SURVIVED or ALREADY
    loss: Tensor  # (N,) float32: the highest cross-entropy found; of a broken sample, that of the point that broke it
    points: Tensor | None  # (N, ...) the points of those losses


class Measured(NamedTuple):
    """All that was measured."""

    verdicts: dict[str, Verdicts]
    attacks: dict[str, tuple[str, ...]]
    audit: list[Finding]
    seconds: dict[str, float]


def measure(
    subject: Subject, held: Images, suites: list[Suite], plan: Plan, store: Store | None, watch: Watch
) -> Measured:
    """Judge the classifier on images, suite by suite, clean first; what `store` has already is not done again."""
    work = _Work(subject, held, plan, store or Memory(), watch, suites)
    trial = _trial(subject, held, plan, work)
    audit = [check(trial) for check in FORWARD_CHECKS] if trial else []
    for finding in audit:
        if finding.verdict == FAIL:
            watch.note(f"audit: {finding.check}: {finding.meaning}")
    verdicts: dict[str, Verdicts] = {}
    seconds: dict[str, float] = {}
    for one in suites:
        began = time.monotonic()
        verdicts[one.name] = work.run(one, verdicts.get(CLEAN))
        seconds[one.name] = time.monotonic() - began
        robust = verdicts[one.name].robust
        watch.suite(one.name, robust.double().mean().item(), len(robust))
    attacks = {one.name: tuple(one.attacks) for one in suites}
    if trial:
        seen = Outcome(
            {name: found.robust for name, found in verdicts.items()},
            {name: found.by for name, found in verdicts.items()},
            attacks,
            work.strays,
        )
        checks = (*GRADIENT_CHECKS, *VERDICT_CHECKS) if climbable(trial) else VERDICT_CHECKS
        audit += [check(trial, seen) for check in checks]
        work.over("audit")
    return Measured(verdicts, attacks, audit, seconds)


class _Work:
    """The suites' attacks, one batch of survivors after another."""

    def __init__(
        self, subject: Subject, held: Images, plan: Plan, store: Store, watch: Watch, suites: list[Suite]
    ) -> None:
        self.subject, self.held, self.plan, self.store, self.watch = subject, held, plan, store, watch
        self.strays: dict[str, int] = {}
        self.done = 0.0  # passes, in this process: what the store had does not tell how fast it goes
        self.ahead = {one.name: float(len(held.y) * sum(one.passes().values())) for one in suites}
        self.ahead["audit"] = float(min(plan.audit, len(held.y)) * PASSES)

    def tick(self, suite: str, passes: float, *, now: bool = True) -> None:
        """Take note of work on a suite, done now or found in the store."""
        self.done += passes if now else 0
        self.ahead[suite] = max(self.ahead[suite] - passes, 0.0)
        self.watch.work(self.done, self.done + sum(self.ahead.values()))

    def over(self, suite: str) -> None:
        """Take note that nothing is left to do of a suite, though there might have been."""
        self.tick(suite, self.ahead[suite], now=False)

    def run(self, suite: Suite, clean: Verdicts | None) -> Verdicts:
        """Return the verdicts under one suite; what is wrong as it is, is not attacked."""
        n = len(self.held.y)
        robust = torch.ones(n, dtype=torch.bool) if clean is None else clean.robust.clone()
        by = torch.where(robust, SURVIVED, ALREADY).to(torch.int8)
        loss = torch.full((n,), -torch.inf) if clean is None else clean.loss.clone()
        points = to_unit(self.held.x.cpu()).clone() if self.plan.points and suite.name != CLEAN else None
        costs, self.strays[suite.name] = suite.passes(), 0
        for place, (name, attack) in enumerate(suite.attacks.items()):
            left = robust.nonzero()[:, 0]
            self.ahead[suite.name] = float(len(left) * sum(list(costs.values())[place:]))
            for start in range(0, len(left), self.plan.batch):
                part = left[start : start + self.plan.batch]
                found, now = self._part(suite.name, name, attack, place, start, part)
                self.strays[suite.name] += int(found["stray"].sum())
                broken = ~found["robust"]
                worse = broken | (found["loss"] > loss[part])
                loss[part] = torch.where(worse, found["loss"], loss[part])
                if points is not None:
                    points[part[worse]] = found["x"][worse]
                robust[part[broken]] = False
                by[part[broken]] = ALREADY if clean is None else place
                self.tick(suite.name, len(part) * costs[name], now=now)
        self.over(suite.name)
        return Verdicts(robust, by, loss, points)

    def _part(
        self, suite: str, name: str, attack: Any, place: int, start: int, part: Tensor
    ) -> tuple[dict[str, Tensor], bool]:
        """Return what becomes of the samples `part`, and whether it was not known already."""
        word = "".join(c if c.isalnum() or c in "-." else "_" for c in suite)
        if word != suite:  # two names may come to the same word
            word += f"-{hashlib.blake2b(suite.encode(), digest_size=4).hexdigest()}"
        key = f"{word}-{place}-{start:06d}"
        found = self.store.part(key)
        if found is not None and torch.equal(found["place"], part):
            return found, False
        plan, device = self.plan, self.subject.device
        x, y = (tensor[part].to(device) for tensor in self.held)
        batch = Batch(to_unit(x), y, part.to(device))
        drawn = generator(plan.seed, "evaluate", suite, name, start, device=device)
        if isinstance(attack, NoAttack):
            right, loss = classify(self.subject.logits_of, batch.x, y)
            made = {"robust": right, "loss": loss, "stray": torch.zeros_like(right)}
        else:
            verdict = judge(self.subject.logits_of, batch, attack, plan.eps, plan.norm, drawn)
            made = verdict._asdict()
            if not plan.points:
                del made["x"]
        made = {key: value.cpu() for key, value in made.items()}
        self.store.keep(key, {**made, "place": part})
        return made, True


def _trial(subject: Subject, held: Images, plan: Plan, work: _Work) -> Trial | None:
    if not plan.audit:
        return None
    some = slice(0, min(plan.audit, len(held.y)))
    x, y = to_unit(held.x[some].to(subject.device)), held.y[some].to(subject.device)
    told = x, y, plan.eps, plan.norm, plan.seed, plan.batch
    return Trial(
        subject.logits_of,
        subject.module,
        subject.trained,
        *told,
        store=work.store,
        tick=lambda passes: work.tick("audit", passes),
        seen={},
    )


GRADIENT_FREE = (CLEAN, "square")


def check_finite(subject: Subject, held: Images, plan: Plan) -> None:
    """Refuse logits that are no numbers for any of the images as they are."""
    bad = 0
    with torch.no_grad():
        for x in torch.split(held.x, plan.batch):
            bad += int((~subject.logits_of(to_unit(x.to(subject.device))).isfinite().all(dim=1)).sum())
    if bad:
        found = f"NaN or infinite for {bad} of {len(held.y)} images"
        refuse("model output", found, "finite logits for the images as they are")


def check_outputs(subject: Subject, held: Images, y: Tensor, classes: int | None, plan: Plan) -> Tensor:
    """Refuse what gives no finite logits, one for each class, or no gradient; return the logits."""
    x = to_unit(held.x.to(subject.device)).requires_grad_()
    try:
        with torch.enable_grad():
            logits = subject.logits_of(x)
    except Exception as error:  # whatever the user's model raises
        if str(error).startswith("model output"):
            raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        refuse("model", "this one", f"one that maps images {tuple(x.shape)} to logits ({reason})")
    if not bool(logits.isfinite().all()):
        refuse("model output", "NaN or infinite", "finite logits for the images as they are")
    k, most = logits.shape[1], int(y.max())
    if int(y.min()) < 0:
        refuse("y", f"labels from {int(y.min())}", f"labels in 0..{k - 1}")
    if most >= k or (classes is not None and k < classes):
        refuse("model output", f"{k} logits an image", f"{max(most + 1, classes or 0)}, one for each class of the data")
    if not logits.requires_grad and not set(plan.names) <= set(GRADIENT_FREE):
        accepted = f"one whose logits have a gradient to the images (only {' and '.join(GRADIENT_FREE)} need none)"
        refuse("model", "without gradients", accepted)
    return logits.detach()


def fixed_index(n: int, plan: Plan, known: bool) -> Tensor:
    """Return which samples are judged: of a known test set the first, as RobustBench does; of others a fixed draw.

    A user's test set may lie in the order of its classes, so its first samples would be all of one.
    """
    count = n if plan.samples is None else min(plan.samples, n)
    if known or count == n:
        return torch.arange(count)
    return torch.randperm(n, generator=generator(0, "test samples"))[:count].sort().values


def folder_name(name: str, plan: Plan) -> Path:
    """Return where the evaluation of something that is no run goes, if nothing else is said."""
    word = "".join(c if c.isalnum() or c in "-." else "-" for c in name).strip("-.") or "model"
    return Path("evaluations") / f"{word}-{plan.norm}-{plan.eps:.4g}"
