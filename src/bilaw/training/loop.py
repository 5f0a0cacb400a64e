"""The training loop, from wherever a run stands to its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bilaw.algorithm import Method, Record, bilaw_step, weighted_step
from bilaw.training.build import build_loss, build_method
from bilaw.training.guards import Diverged, Interrupted, Look, at_chance, overfits
from bilaw.training.judge import judge
from bilaw.training.keepers import Keeper, Tensors, peak_mib
from bilaw.training.schedule import rate
from bilaw.training.setup import Setup
from bilaw.training.standing import Standing
from bilaw.training.watch import Epoch, Watch
from bilaw.types import Batch, MetaScheme
from bilaw.weighting.normalise import BadWeights

CHECKED = 16  # steps between two looks for a loss that is no number, where looking makes a device wait


class Loop:
    """Steps, epochs, looks at *select*, checkpoints. `here` and the setup's state are all that it remembers."""

    def __init__(self, setup: Setup, keeper: Keeper, watch: Watch) -> None:
        self.setup, self.keeper, self.watch, self.here = setup, keeper, watch, Standing()
        self.config, self.train = setup.config, setup.feed.train
        self.curve = torch.full((len(self.train), 2), torch.nan, device=setup.device)  # (loss, ESS) of each step
        self.saved: Path | None = None  # where the last checkpoint went
        self.checked = 0  # steps of this epoch whose loss is known to be a number
        self.clock = self.began = time.monotonic()
        self.steps_timed = 0

    def begin(self) -> None:
        """Say what is worth knowing of the model and the data, and keep what the run begins with."""
        for text in self.setup.notes:
            self.keeper.event({"t": 0, "event": "note", "text": text})
            self.watch.note(text)
        self.save()

    # What a checkpoint holds, and how to go on from one.

    def save(self) -> None:
        """Keep a checkpoint, unless the parameters are no numbers: every checkpoint is a good one."""
        self._check_numbers()
        self.saved = self.keeper.checkpoint(self._tensors(), self._facts())
        self.clock = time.monotonic()

    def load(self, tensors: Tensors, facts: Mapping[str, Any]) -> None:
        """Stand where a checkpoint was taken."""
        self.setup.state.load(tensors)
        self.curve.copy_(tensors["curve"])
        self.setup.seen.table.copy_(tensors["seen"])
        self.here, self.checked = Standing.of(facts["standing"]), 0

    def _tensors(self) -> Tensors:
        return {**self.setup.state.tensors(), "curve": self.curve, "seen": self.setup.seen.table}

    def _facts(self) -> dict[str, Any]:
        return {"standing": self.here.facts(), "identity": self.setup.identity}

    # The run.

    def run(self) -> None:
        """Train until the last epoch, or until `select.patience` looks have brought nothing better."""
        while self.here.epoch < self.config.optim.epochs and not self._tired():
            self._steps()
            self._end_of_epoch()

    def _tired(self) -> bool:
        patience = self.config.select.patience
        return patience is not None and self.here.waited >= patience

    def _steps(self) -> None:
        epoch, epochs = self.here.epoch, self.config.optim.epochs
        if self.here.step == 0:
            self.curve.fill_(torch.nan)
            self.checked = 0
            self.setup.seen.clear()
        config = self.setup.switched(self.here.switched)
        method = build_method(config, self.setup.weighting.at(epoch, epochs))
        self.began, self.steps_timed = time.monotonic(), 0
        for batch in self.train.epoch(epoch, start=self.here.step):
            self._step(method, batch)
            self.watch.step(self.here.t, epochs * len(self.train))
            if self.watch.stop():
                self._interrupt()
            if self._due():
                self.save()

    def _step(self, method: Method, batch: Batch) -> None:
        here, setup = self.here, self.setup
        setup.optimizer.param_groups[0]["lr"] = self._lr(here.step)
        try:
            if setup.feed.meta and isinstance(method.scheme, MetaScheme):
                validation = setup.feed.meta.cycle(here.t)
                record = bilaw_step(setup.net, setup.optimizer, batch, validation, method, self.config.seed, here.t)
            else:
                record = weighted_step(setup.net, setup.optimizer, batch, method, self.config.seed, here.t)
        except BadWeights as error:
            self._check_numbers()  # an earlier loss may be where it began
            raise self._diverged(f"the weights are no numbers ({error})", here.step) from error
        if setup.average:
            setup.average.update(setup.net, here.t)
        if self._remembers():
            setup.seen.add(batch, record)
        self.curve[here.step] = _brief(record)
        here.step, here.t, self.steps_timed = here.step + 1, here.t + 1, self.steps_timed + 1
        if setup.device.type == "cpu" or here.step % CHECKED == 0:
            self._check_curve()

    def _lr(self, step: int) -> float:
        optim = self.config.optim
        part = step / len(self.train)
        return rate(optim.schedule, optim.lr, self.here.epoch, optim.epochs, part, optim.warmup)

    def _remembers(self) -> bool:
        every = self.config.log.weights_every
        return every > 0 and self.here.epoch % every == 0

    def _due(self) -> bool:
        steps = self.config.log.checkpoint_steps
        minutes = (time.monotonic() - self.clock) / 60
        return minutes >= self.config.log.checkpoint_minutes or (steps > 0 and self.here.t % steps == 0)

    def _interrupt(self) -> None:
        here = self.here
        self.save()
        self.keeper.status("interrupted", here.epoch, self.config.optim.epochs, here.best)
        raise Interrupted(self.keeper.path, here.epoch, here.step)

    # The end of an epoch.

    def _end_of_epoch(self) -> None:
        self._check_numbers()
        here, last = self.here, self.here.epoch + 1 == self.config.optim.epochs
        seconds = time.monotonic() - self.began
        look = self._look() if last or (here.epoch + 1) % self.config.select.every == 0 else None
        if look and self._roll_back(look):
            return
        loss, ess = self.curve.cpu().double().mean(dim=0).tolist()
        judged = (look.clean, look.robust, look.one_step) if look else 3 * (torch.nan,)
        epoch = Epoch(here.epoch, self._lr(len(self.train) - 1), loss, ess, *judged)
        timing = {
            "seconds": seconds,
            "ms_a_step": 1000 * seconds / max(self.steps_timed, 1),
            "select_seconds": time.monotonic() - self.began - seconds,
            "peak_mib": peak_mib(self.setup.device),
        }
        rows = self.setup.seen.rows(self.setup.feed.parts.train) if self._remembers() else None
        self.keeper.epoch(here.t, epoch, self.curve.cpu(), timing, rows)
        self._choose(look, epoch)
        self._warn(ess, look)
        here.epoch, here.step = here.epoch + 1, 0
        if look and look is here.peak and self.config.guard.overfitting == "switch" and self._one_step_roles():
            self.keeper.keep_good(self._tensors(), self._facts())
        self.save()
        self.keeper.status("running", here.epoch, self.config.optim.epochs, here.best)
        self.watch.epoch(epoch)

    def _look(self) -> Look:
        net, average = self.setup.net, self.setup.average
        classifier = net.frozen(average.theta, average.buffers) if average else net.frozen()
        watched = bool(self._one_step_roles()) and self.config.guard.overfitting != "off"
        look = judge(classifier, self.setup.feed.select, self.config, self.here.epoch, watched)
        if look.lost == 1:
            raise self._diverged("no logit on select is a number", self.here.step - 1)
        return look

    def _one_step_roles(self) -> tuple[str, ...]:
        return self.setup.one_step_roles(self.here.switched)

    def _choose(self, look: Look | None, epoch: Epoch) -> None:
        here = self.here
        if look is None:
            return
        if here.peak is None or look.robust > here.peak.robust:
            here.peak = look
        aim = "robust" if build_loss(self.config.loss).attacked else "clean"  # what plain training is after
        if here.best is not None and getattr(look, aim) <= getattr(here.best, aim):
            here.waited += 1
            return
        about = {"epoch": str(epoch.epoch + 1), "clean": f"{epoch.clean:.4f}", "robust": f"{epoch.robust:.4f}"}
        self.keeper.best(self.setup.state.weights(), self.setup.state.omega(), self.setup.about_omega() | about)
        here.best, here.waited = epoch, 0  # now that it is held: a disk may be full

    def _roll_back(self, look: Look) -> bool:
        """Answer catastrophic overfitting: go back to the last good checkpoint, and attack with PGD from there."""
        here, guard = self.here, self.config.guard
        roles = self._one_step_roles()
        if guard.overfitting == "off" or not roles or not here.peak or not overfits(look, here.peak, guard.drop):
            return False
        peak, role = here.peak, roles[0]  # the training attack first: theta overfits to what it is trained on
        seen = (
            f"catastrophic overfitting in epoch {look.epoch + 1}: PGD accuracy on select fell from {peak.robust:.1%} "
            f"to {look.robust:.1%}, while under F-FGSM it went from {peak.one_step:.1%} to {look.one_step:.1%}"
        )
        if guard.overfitting == "report":
            self._say_once("overfitting", seen)
            return False
        seen += f"; back to the end of epoch {peak.epoch + 1}, with PGD in place of {role}'s one-step attack"
        self.load(*self.keeper.good())
        self.here.switched, self.here.peak = (*self.here.switched, role), None
        event = {"event": "overfitting", "text": seen, "seen": look._asdict(), "switched": role}
        self.keeper.back_to(peak.epoch, self.here.t, event)
        self.watch.note(seen)
        self.save()
        return True

    def _warn(self, ess: float, look: Look | None) -> None:
        best = self.here.best
        if look and look.lost:
            self._say_once(
                "lost",
                f"in epoch {self.here.epoch + 1} {look.lost:.1%} of the logits on select are no numbers: such images "
                "count as wrong",
            )
        if look and best and at_chance(look.clean, best.clean, self.setup.classes):
            self._say_once(
                "chance",
                f"the classifier has fallen to chance: clean accuracy on select went from {best.clean:.1%} (epoch "
                f"{best.epoch + 1}) to {look.clean:.1%}; it seldom recovers. Lower optim.lr, or set optim.clip",
            )
        least = self.config.guard.min_ess
        if self.setup.weighs and ess < least:
            self._say_once(
                "ess",
                f"the weights have collapsed in epoch {self.here.epoch + 1}: their effective sample size is {ess:.1%} "
                f"of a batch (guard.min_ess is {least:.0%}): a few samples decide each step",
            )

    def _say_once(self, what: str, text: str) -> None:
        if what not in self.here.warned:
            self.here.warned = (*self.here.warned, what)
            self.keeper.event({"t": self.here.t, "event": "warning", "text": text})
            self.watch.note(text)

    # Losses and parameters that are no numbers.

    def _check_numbers(self) -> None:
        self._check_curve()
        if not self.setup.state.finite():
            raise self._diverged("the parameters are no numbers", max(self.here.step - 1, 0))

    def _check_curve(self) -> None:
        bad = ~self.curve[self.checked : self.here.step, 0].isfinite()
        if bool(bad.any()):
            step = self.checked + int(bad.nonzero()[0])
            raise self._diverged(f"the loss is {self.curve[step, 0].item()}", step)
        self.checked = self.here.step

    def _diverged(self, what: str, step: int) -> Diverged:
        index = self.train.at(self.here.epoch, step).index
        found = Diverged(what, self.here.epoch, step, index, self.saved)
        self.keeper.event({"t": self.here.t, "event": "diverged", "text": str(found), "index": found.index.tolist()})
        self.keeper.status("failed", self.here.epoch, self.config.optim.epochs, self.here.best)
        return found


def _brief(record: Record) -> Tensor:
    """Return (loss, effective sample size) of a step, without waiting for the device."""
    ess = record.w.sum().square() / (len(record.w) * record.w.square().sum())
    return torch.stack([record.loss, ess])
