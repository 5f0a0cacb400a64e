"""What ends a run early, and what is watched while it goes on."""

import math

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from training_kit import BILAW, Small, bits, config, dataset, settings_of

from bilaw import sealed
from bilaw.runs import Run
from bilaw.training import keepers, loop
from bilaw.training.fit import Diverged, Interrupted, Watch, fit
from bilaw.training.guards import Look
from bilaw.training.setup import Setup

NAN = math.nan


def train(settings, run=None, module=None, step=lambda done, total: None, **more):
    notes = []
    got = fit(module or Small(), dataset(), settings, run=run, watch=Watch(note=notes.append, step=step), **more)
    return got, notes


class Breaking(nn.Module):
    """A model that gives NaN once it is broken."""

    def __init__(self, after):
        super().__init__()
        self.inner, self.after, self.factor = Small(), after, 1.0

    def step(self, done, total):
        if done == self.after:
            self.factor = NAN

    def forward(self, x):
        return self.inner(x) * self.factor


@pytest.mark.parametrize("scheme", ["uniform", "learned"])
def test_a_loss_that_is_no_number_names_the_step_the_samples_and_the_checkpoint(tmp_path, monkeypatch, scheme):
    seen, name = [], {"uniform": "weighted_step", "learned": "bilaw_step"}[scheme]
    step = getattr(loop, name)
    monkeypatch.setattr(loop, name, lambda *args: (seen.append(args[2].index), step(*args))[1])
    module = Breaking(after=10)
    settings = config(scheme__name=scheme, log__checkpoint_steps=4, seed=1)
    with pytest.raises(Diverged, match=r"optim\.clip") as caught:
        train(settings, tmp_path / "run", module, module.step)
    error, run = caught.value, Run(tmp_path / "run")
    assert (error.epoch, error.step) == divmod(10, -(-len(run.splits()["train"]) // 20))
    assert torch.equal(error.index, seen[10])
    assert f"epoch {error.epoch + 1}, step {error.step + 1}" in str(error)
    assert ", ".join(map(str, error.index[:8].tolist())) in str(error)
    assert str(error.checkpoint) in str(error)
    (named,) = [line for line in run.metrics() if line.get("event") == "diverged"]
    assert (named["index"], named["text"]) == (error.index.tolist(), str(error))
    kept = sealed.read(error.checkpoint)
    assert all(value.isfinite().all() for name, value in kept.tensors.items() if name.startswith(("theta", "mu")))
    assert kept.facts["standing"]["t"] == 8
    assert run.status().state == "failed"


def test_without_a_run_there_is_no_checkpoint_to_name():
    module = Breaking(after=3)
    with pytest.raises(Diverged, match="there is no checkpoint") as caught:
        train(config(), None, module, module.step)
    assert (caught.value.step, caught.value.checkpoint) == (3, None)


@pytest.mark.parametrize("scheme", ["uniform", "learned", "mail"])
def test_a_learning_rate_far_too_high_ends_as_diverged_and_leaves_a_finite_checkpoint(tmp_path, scheme):
    settings = config(scheme__name=scheme, optim__lr=1e30, log__checkpoint_steps=1)
    with pytest.raises(Diverged) as caught:
        train(settings, tmp_path / "run")
    held = sealed.read(caught.value.checkpoint).tensors
    assert all(value.isfinite().all() for name, value in held.items() if name.startswith("theta"))


def test_parameters_that_are_no_numbers_never_become_a_checkpoint(tmp_path):
    module = Small()
    with torch.no_grad():
        module.unused = nn.Parameter(torch.tensor([NAN]))  # no logit tells
    with pytest.raises(Diverged, match="the parameters are no numbers in epoch 1, step 1"):
        train(config(), tmp_path / "run", module)
    assert not list(Run(tmp_path / "run").checkpoints.iterdir())


# Catastrophic overfitting, by a judge that says what it is told.

PEAK = 1
COLLAPSE = ([0.3, 0.5, 0.45, 0.1, 0.1], [0.4, 0.6, 0.7, 0.9, 0.9])


class Judge:
    """Says `robust` and `one_step` epoch by epoch; after each switch, the next pair."""

    def __init__(self, *scripts):
        self.scripts, self.asked = list(scripts), []

    def __call__(self, classifier, select, config, epoch, one_step):
        self.asked.append((epoch, one_step))
        robust, one = self.scripts[0]
        look = Look(epoch, 0.9, robust[epoch], one[epoch] if one_step else NAN)
        if one_step and robust[epoch] == 0.1 and len(self.scripts) > 1:
            self.scripts.pop(0)
        return look


CALM = ([0.2, 0.2, 0.2, 0.2, 0.2], [0.3, 0.3, 0.3, 0.3, 0.3])


class Spy:
    """Everything the folder was told to keep, and the attacks that were built."""

    def __init__(self, monkeypatch):
        self.checkpoints, self.attacks = [], []
        keep, build = keepers.Folder.checkpoint, loop.build_method

        def checkpoint_of(folder, tensors, facts):
            standing = facts["standing"]
            self.checkpoints.append((standing["epoch"], standing["step"], standing["switched"], bits(tensors)))
            return keep(folder, tensors, facts)

        def method_of(config, scheme):
            self.attacks.append((config.attack.name, config.meta.attack))
            return build(config, scheme)

        monkeypatch.setattr(keepers.Folder, "checkpoint", checkpoint_of)
        monkeypatch.setattr(loop, "build_method", method_of)


def one_step(**settings):
    return config(**{"attack__name": "f-fgsm", "optim__epochs": 5, "optim__ema": 0.9, **settings})


def test_overfitting_rolls_back_to_the_bits_of_the_peak_and_attacks_with_pgd(tmp_path, monkeypatch):
    spy = Spy(monkeypatch)
    monkeypatch.setattr(loop, "judge", Judge(COLLAPSE, CALM))
    got, notes = train(one_step(), tmp_path / "run")
    run = Run(tmp_path / "run")

    peak = next(held for epoch, step, _, held in spy.checkpoints if (epoch, step) == (PEAK + 1, 0))
    after = next(held for epoch, _, switched, held in spy.checkpoints if switched)
    assert {name for name in peak if name != "seen" and peak[name] != after[name]} == set()
    assert spy.attacks == [("f-fgsm", None)] * 4 + [("pgd", None)] * 3

    metrics = run.metrics()
    back = next(place for place, line in enumerate(metrics) if "back_to" in line)
    assert (metrics[back]["event"], metrics[back]["back_to"], metrics[back]["switched"]) == ("overfitting", 1, "attack")
    assert metrics[back]["seen"]["robust"] == 0.1
    assert [line["epoch"] for line in metrics[:back] if "event" not in line] == [0, 1, 2]  # 2 is abandoned, and kept
    assert [line["epoch"] for line in run.epochs()] == [0, 1, 2, 3, 4] == [epoch.epoch for epoch in got.history]
    assert [epoch.robust for epoch in got.history] == [0.3, 0.5, 0.2, 0.2, 0.2]
    assert got.best.epoch == PEAK
    assert [note for note in notes if "catastrophic" in note] == [metrics[back]["text"]]
    assert "PGD in place of attack's one-step attack" in metrics[back]["text"]
    values, epochs, rows = run.weights()
    assert epochs == [0, 1, 2, 3, 4]
    assert rows.shape == (5, len(values), len(run.splits()["train"]))
    assert (tmp_path / "run" / "weights.f16").stat().st_size == 2 * rows[0].size * 6  # the abandoned row stays


def test_memory_rolls_back_as_a_folder_does(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "judge", Judge(COLLAPSE, CALM))
    with_run, _ = train(one_step(), tmp_path / "run")
    monkeypatch.setattr(loop, "judge", Judge(COLLAPSE, CALM))
    without, _ = train(one_step())
    assert bits(with_run.model.state_dict()) == bits(without.model.state_dict())
    assert repr(with_run.history) == repr(without.history)


def test_weights_of_abandoned_epochs_do_not_count_before_they_come_again(tmp_path, monkeypatch):
    late = ([0.3, 0.5, 0.45, 0.45, 0.1], COLLAPSE[1])
    monkeypatch.setattr(loop, "judge", Judge(late, CALM))
    rolled = []
    with pytest.raises(Interrupted):
        fit(
            Small(),
            dataset(),
            one_step(),
            run=tmp_path / "run",
            watch=Watch(note=rolled.append, stop=lambda: any("catastrophic" in note for note in rolled)),
        )
    assert Run(tmp_path / "run").weights()[1] == [0, 1]


@pytest.mark.parametrize(
    ("attack", "meta", "switches"),
    [
        ("pgd", "f-fgsm", ["meta.attack"]),
        ("f-fgsm", "pgd", ["attack"]),
        ("f-fgsm", "fgsm", ["attack", "meta.attack"]),
        ("fgsm", None, ["attack"]),  # the meta role follows
    ],
)
def test_the_role_that_overfits_is_switched_the_training_attack_first(tmp_path, monkeypatch, attack, meta, switches):
    spy = Spy(monkeypatch)
    monkeypatch.setattr(loop, "judge", Judge(*[COLLAPSE] * len(switches), CALM))
    settings = settings_of(
        {
            "scheme.name": "learned",
            "attack.name": attack,
            "meta.attack": meta or "auto",
            "optim.epochs": 5,
            "log.weights_every": 2,
        }
    )
    train(settings, tmp_path / "run")
    run = Run(tmp_path / "run")
    assert [line["switched"] for line in run.metrics() if "back_to" in line] == switches
    assert [line["epoch"] for line in run.epochs()] == [0, 1, 2, 3, 4]
    assert spy.attacks[0] == (attack, meta)
    last = ("pgd" if "attack" in switches else attack, "pgd" if "meta.attack" in switches else meta)
    assert spy.attacks[-1] == last
    assert run.weights()[1] == [0, 2, 4]


@pytest.mark.parametrize(
    ("settings", "roles"),
    [
        ({"scheme__name": "learned"}, ("attack", "meta.attack")),
        ({"scheme__name": "learned", "meta__loss": "plain"}, ("attack",)),
        ({"scheme__name": "learned", "meta__attack": "pgd"}, ("attack",)),
        ({"loss__name": "plain"}, ()),
        ({}, ("attack",)),
    ],
)
def test_the_roles_of_a_one_step_attack_are_those_that_attack(settings, roles):
    setup = Setup(Small(), dataset(), config(attack__name="f-fgsm", **settings))
    assert setup.one_step_roles(()) == roles
    assert setup.one_step_roles(("attack", "meta.attack")) == ()


def test_report_says_so_once_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "judge", Judge(COLLAPSE))
    got, notes = train(one_step(guard__overfitting="report"), tmp_path / "run")
    assert len([note for note in notes if "catastrophic" in note]) == 1
    assert [line["event"] for line in Run(tmp_path / "run").metrics() if "event" in line].count("warning") == 1
    assert [epoch.robust for epoch in got.history] == COLLAPSE[0]
    assert not Run(tmp_path / "run").good.exists()


def test_off_does_not_look(tmp_path, monkeypatch):
    judge = Judge(COLLAPSE)
    monkeypatch.setattr(loop, "judge", judge)
    _, notes = train(one_step(guard__overfitting="off"), tmp_path / "run")
    assert judge.asked == [(epoch, False) for epoch in range(5)]
    assert not [note for note in notes if "catastrophic" in note]


def test_iterative_attacks_are_not_watched(monkeypatch):
    judge = Judge(COLLAPSE)
    monkeypatch.setattr(loop, "judge", judge)
    train(config(optim__epochs=5))
    assert not any(one for _, one in judge.asked)


# Weights, patience, selection.


def test_collapsed_weights_are_warned_of_once(tmp_path):
    _, notes = train(config(scheme__name="learned", guard__min_ess=1.0), tmp_path / "run")
    warned = [note for note in notes if "collapsed" in note]
    assert len(warned) == 1
    assert "guard.min_ess is 100%" in warned[0]
    events = [line for line in Run(tmp_path / "run").metrics() if line.get("event") == "warning"]
    assert [line["text"] for line in events] == warned


@pytest.mark.parametrize("settings", [{"guard__min_ess": 1.0}, {"scheme__name": "learned", "guard__min_ess": 0.0}])
def test_weights_that_hold_are_not_warned_of(settings):
    assert not [note for note in train(config(**settings))[1] if "collapsed" in note]


def test_a_classifier_that_falls_to_chance_is_warned_of_once(monkeypatch):
    clean = iter([0.9, 0.8, 0.3, 0.3])  # of four classes
    monkeypatch.setattr(loop, "judge", lambda classifier, select, config, epoch, _: Look(epoch, next(clean), 0.2, NAN))
    _, notes = train(config(optim__epochs=4))
    assert [note for note in notes if "chance" in note] == [
        "the classifier has fallen to chance: clean accuracy on select went from 90.0% (epoch 1) to 30.0%; "
        "it seldom recovers. Lower optim.lr, or set optim.clip"
    ]


class Mute(nn.Module):
    """Gives NaN wherever it is judged: for every image, or for those of the first class alone."""

    def __init__(self, images):
        super().__init__()
        self.inner, self.images = Small(), images

    def forward(self, x):
        logits = self.inner(x)
        if self.training or torch.is_grad_enabled() or len(x) == 8:  # as the door asks
            return logits
        broken = torch.ones(len(x), dtype=torch.bool) if self.images == "all" else torch.arange(len(x)) % 4 == 0
        return logits.masked_fill(broken[:, None], NAN)


def test_logits_on_select_that_are_no_numbers_are_wrong_and_said_once(tmp_path):
    got, notes = train(config(), tmp_path / "run", Mute("some"))
    assert [note for note in notes if "no numbers" in note] == [
        "in epoch 1 25.0% of the logits on select are no numbers: such images count as wrong"
    ]
    assert max(epoch.clean for epoch in got.history) <= 0.75


def test_no_logit_on_select_that_is_a_number_is_divergence(tmp_path):
    with pytest.raises(Diverged, match="no logit on select is a number in epoch 1"):
        train(config(), tmp_path / "run", Mute("all"))
    assert Run(tmp_path / "run").status().state == "failed"


def test_patience_stops_and_the_best_epoch_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "judge", Judge(([0.2, 0.5, 0.4, 0.5, 0.9], CALM[1])))
    best = []
    keep = keepers.Folder.best
    monkeypatch.setattr(keepers.Folder, "best", lambda self, w, *more: (best.append(bits(w)), keep(self, w, *more))[1])
    got, _ = train(config(optim__epochs=5, select__patience=2), tmp_path / "run")
    assert [epoch.epoch for epoch in got.history] == [0, 1, 2, 3]  # 0.5 again is nothing better
    assert got.best.epoch == 1
    assert bits(got.model.state_dict()) == best[-1] == bits(load_file(Run(tmp_path / "run").best))
    assert len(best) == 2
    assert Run(tmp_path / "run").status().state == "finished"


def test_select_every_looks_then_and_at_the_last_epoch(monkeypatch):
    judge = Judge(CALM)
    monkeypatch.setattr(loop, "judge", judge)
    got, _ = train(config(optim__epochs=5, select__every=2))
    assert [epoch for epoch, _ in judge.asked] == [1, 3, 4]
    assert [math.isnan(epoch.robust) for epoch in got.history] == [True, False, True, False, False]


def test_an_interrupted_run_goes_on_where_it_was_without_a_kill(tmp_path):
    done = []
    watch = Watch(step=lambda at, of: done.append(at), stop=lambda: len(done) == 10)
    with pytest.raises(Interrupted) as caught:
        fit(Small(), dataset(), settings_of(BILAW), run=tmp_path / "run", watch=watch)
    run = Run(tmp_path / "run")
    assert (caught.value.path, caught.value.epoch, caught.value.step) == (run.path, 1, 3)
    assert run.status().state == "interrupted"
    again, _ = train(None, run.path, resume=True)
    whole, _ = train(settings_of(BILAW))
    assert bits(again.model.state_dict()) == bits(whole.model.state_dict())
    assert bits(again.omega.network.state_dict()) == bits(whole.omega.network.state_dict())
    with pytest.raises(ValueError, match="has not finished"):
        train(None, run.path, resume=True)
