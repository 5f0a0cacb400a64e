"""`fit` as a function: what it changes, what it leaves, and that each option does what it says."""

import copy
import inspect
import json
import os
import random
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from training_kit import BILAW, CLASSES, Small, bits, config, dataset, differing, images, left_behind, settings_of

from bilaw import cli, sealed
from bilaw import settings as bilaw_settings
from bilaw.config import AttackConfig, Config
from bilaw.datasets.data import Dataset, Images
from bilaw.margins import margin
from bilaw.runs import Run
from bilaw.settings import from_toml, override
from bilaw.training import fit as fit_module
from bilaw.training import loop
from bilaw.training.fit import Watch, fit
from bilaw.training.schedule import SCHEDULES
from bilaw.training.setup import identity
from bilaw.types import Batch

GROUPS = bilaw_settings.groups()


def train(settings, run=None, module=None, data=None, **watch):
    return fit(module or Small(), data or dataset(), settings, run=run, watch=Watch(**watch))


# What is left as it was.


def world(module):
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.get_rng_state().tolist(),
        "numpy": repr(np.random.get_state()),
        "python": random.getstate(),
        "cudnn": [getattr(torch.backends.cudnn, name) for name in ("enabled", "benchmark", "deterministic")],
        "tf32": torch.backends.cuda.matmul.allow_tf32,
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "cwd": Path.cwd(),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "path": list(sys.path),
        **{f"${name}": value for name, value in os.environ.items()},
        "warnings": list(warnings.filters),
        "modes": [part.training for part in module.modules()],
        "wants gradients": [p.requires_grad for p in module.parameters()],
        "device": [p.device for p in module.parameters()],
        "memory": [p.data_ptr() for p in module.parameters()],
        "hooks": [len(part._forward_hooks) for part in module.modules()],
    }


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_nothing_global_is_changed(tmp_path, ends):
    torch.manual_seed(5)
    module = Small()
    module.body[1].eval()  # one part only
    module.body[0].bias.requires_grad_(False)
    frozen = module.body[0].bias.clone()
    settings = {**BILAW, "log.to": "tensorboard", "compute.threads": 2, "compute.channels_last": True}
    # What PyTorch and tensorboardX do when they are first used is their own.
    train(config(optim__epochs=1, log__to="tensorboard"), tmp_path / "first")
    torch.backends.cudnn.benchmark = True
    before, threads = world(module), []
    try:
        if ends == "well":
            note = lambda done, total: threads.append(torch.get_num_threads())  # noqa: E731
            train(settings_of(settings), tmp_path / "run", module, step=note)
            assert set(threads) == {2}
        else:
            with pytest.raises(ArithmeticError):
                train(settings_of({**settings, "optim.lr": 1e30, "optim.clip": "auto"}), tmp_path / "run", module)
        after = world(module)
    finally:
        torch.backends.cudnn.benchmark = False
    changed = {name: after.get(name) for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert not changed
    assert torch.equal(module.body[0].bias, frozen)


def test_without_a_run_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(settings_of({**BILAW, "log.to": "tensorboard"}))
    assert not list(tmp_path.rglob("*"))


def test_two_fits_give_the_same_bits_and_a_run_folder_changes_none(tmp_path):
    torch.manual_seed(1)
    one = train(settings_of(BILAW))
    torch.manual_seed(2)
    np.random.seed(3)
    other = train(settings_of(BILAW), tmp_path / "run")
    assert bits(one.model.state_dict()) == bits(other.model.state_dict())
    assert bits(one.omega.network.state_dict()) == bits(other.omega.network.state_dict())
    assert one.history == other.history or repr(one.history) == repr(other.history)
    assert bits(one.model.state_dict()) != bits(train(settings_of({**BILAW, "seed": 1})).model.state_dict())


class Untouchable:
    def __getattribute__(self, name):
        raise AssertionError(f"the test half was asked for {name}")

    def __bool__(self):
        raise AssertionError("the test half was looked at")


def test_test_data_are_never_looked_at(tmp_path):
    held = images()
    got = train(config(optim__epochs=1), data=Dataset("noise", held, Untouchable(), CLASSES, augment=True))
    assert bits(got.model.state_dict()) == bits(train(config(optim__epochs=1)).model.state_dict())


def test_the_defaults_are_the_command_lines(capsys):
    assert cli.main(["train", "--print-config"]) == 0
    from bilaw.settings import from_toml

    assert from_toml(capsys.readouterr().out) == Config()
    assert inspect.signature(fit).parameters["config"].default is None


def test_without_settings_fit_takes_the_defaults(monkeypatch):
    seen = []

    class Stop(Exception):
        pass

    def setup(module, data, config):
        seen.append(config)
        raise Stop

    monkeypatch.setattr(fit_module, "Setup", setup)
    with pytest.raises(Stop):
        fit("tiny-cnn", "digits")
    (got,) = seen
    expected = Config()
    for part in ("loss", "attack", "scheme", "meta", "optim", "select", "guard", "log", "data", "model", "seed"):
        assert getattr(got, part) == getattr(expected, part)


def test_it_refuses_what_it_cannot_take(tmp_path):
    with pytest.raises(ValueError, match="model = 3"):
        fit(3, dataset())
    for settings in ({}, {"optim.epochs": 1}, "config.toml", 0):
        with pytest.raises(ValueError, match=r"config = .* a bilaw\.Config"):
            fit(Small(), dataset(), settings)
    with pytest.raises(ValueError, match="the folder of the run to go on with"):
        fit(Small(), dataset(), resume=True)
    with pytest.raises(ValueError, match=r"a config\.toml in it"):
        fit(Small(), dataset(), run=tmp_path, resume=True)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="a new or an empty folder"):
        fit(Small(), dataset(), config(), run=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_gradients_switched_off_outside_are_on_inside():
    with torch.no_grad():
        got = train(config(scheme__name="learned"))
        assert not torch.is_grad_enabled()
    assert bits(got.model.state_dict()) == bits(train(config(scheme__name="learned")).model.state_dict())
    with torch.inference_mode(), pytest.raises(ValueError, match=r"torch\.inference_mode = True"):
        train(config())


def stopped(folder, settings):
    done = []
    with pytest.raises(fit_module.Interrupted):
        train(settings, folder, step=lambda at, of: done.append(at), stop=lambda: len(done) == 9)
    return folder


def test_a_run_goes_on_with_what_it_has_or_not_at_all(tmp_path):
    run = stopped(tmp_path / "run", config(scheme__name="learned"))
    other_data = dataset()._replace(train=images(seed=1))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for what, arguments in {
        "data": (Small(), other_data, None),
        "model": (nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), dataset(), Run(run).config()),
        "config": (Small(), dataset(), config(scheme__name="learned", seed=1)),
    }.items():
        with pytest.raises(ValueError, match=f"^{what} = .* goes on with what it has"):
            fit(*arguments, run=run, resume=True)
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
        assert Run(run).status().state == "interrupted"


def test_a_run_without_a_checkpoint_goes_on_with_its_settings_only(tmp_path):
    run = stopped(tmp_path / "run", config())
    for path in Run(run).checkpoints.iterdir():
        path.unlink()
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"^config = "):
        fit(Small(), dataset(), config(seed=1), run=run, resume=True)
    got = fit(Small(), dataset(), run=run, resume=True)
    assert bits(got.model.state_dict()) == bits(train(config()).model.state_dict())


def test_frozen_parameters_are_those_the_run_began_with(tmp_path):
    def half_frozen(seed):
        made = Small(seed)
        made.body[0].requires_grad_(False)
        return made

    done = []
    watch = {"step": lambda at, of: done.append(at), "stop": lambda: len(done) == 9}
    with pytest.raises(fit_module.Interrupted):
        train(config(), tmp_path / "run", half_frozen(0), **watch)
    fit(half_frozen(1), dataset(), run=tmp_path / "run", resume=True)
    train(config(), tmp_path / "whole", half_frozen(0))
    assert differing(left_behind(tmp_path / "whole"), left_behind(tmp_path / "run")) == []


# Options, by hand.


def test_the_average_is_the_one_by_hand(tmp_path):
    module, seen = Small(), []
    started = copy.deepcopy(module.state_dict())

    def note(done, total):
        seen.append({name: value.detach().double().clone() for name, value in module.state_dict().items()})

    settings = config(optim__ema=0.4, optim__epochs=1, log__weights_every=0)
    train(settings, tmp_path / "run", module, step=note)
    average = {name: value.double() for name, value in started.items()}
    for t, now in enumerate(seen):
        d = min(0.4, (1 + t) / (10 + t))
        for name in average:
            average[name] = now[name] if "num_batches" in name else d * average[name] + (1 - d) * now[name]
    held = sealed.read(max(Run(tmp_path / "run").checkpoints.iterdir())).tensors
    for name, value in average.items():
        kind = "theta" if f"average-theta/{name}" in held else "buffer"
        torch.testing.assert_close(held[f"average-{kind}/{name}"].double(), value, rtol=1e-5, atol=1e-6)
        assert torch.equal(held[f"{kind}/{name}"].double(), seen[-1][name])


def test_the_average_is_what_is_judged_and_kept(tmp_path, monkeypatch):
    judge, seen = loop.judge, []
    x = images().x[:6].float() / 255

    def spy(classifier, *more):
        seen.append(classifier(x))
        return judge(classifier, *more)

    monkeypatch.setattr(loop, "judge", spy)
    got = train(config(optim__ema=0.9, optim__epochs=1), tmp_path / "run")
    assert torch.equal(got.model.eval()(x), seen[0])
    held = sealed.read(max(Run(tmp_path / "run").checkpoints.iterdir())).tensors
    best = load_file(Run(tmp_path / "run").best)
    assert all(torch.equal(best[name[14:]], held[name]) for name in held if name.startswith("average-theta/"))
    assert any(not torch.equal(best[name[6:]], held[name]) for name in held if name.startswith("theta/"))


class Cast(nn.Module):
    """Gives logits in another precision than single."""

    def __init__(self, inside, outside):
        super().__init__()
        self.inner, self.inside, self.outside = Small().to(inside), inside, outside

    def forward(self, x):
        return self.inner(x.to(self.inside)).to(self.outside)


@pytest.mark.parametrize("scheme", ["learned", "non-parametric", "mail"])
@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        (torch.float32, torch.float16),
        (torch.float32, torch.bfloat16),
        (torch.float32, torch.float64),
        (torch.float64, torch.float64),
    ],
)
def test_logits_may_have_another_precision(scheme, inside, outside):
    got = train(config(scheme__name=scheme, optim__epochs=1), module=Cast(inside, outside))
    assert {p.dtype for p in got.model.parameters()} == {inside}


@pytest.mark.parametrize("scheme", ["uniform", "learned"])
def test_the_default_precision_may_be_another(scheme):
    module = Small()
    torch.set_default_dtype(torch.float64)
    try:
        train(config(scheme__name=scheme, optim__epochs=1), module=module)
        with pytest.raises(ValueError, match=r"its parameters are torch\.float64, images torch\.float32"):
            train(config(scheme__name=scheme, optim__epochs=1))
    finally:
        torch.set_default_dtype(torch.float32)


class Tied(nn.Module):
    """One matrix under two names."""

    def __init__(self):
        super().__init__()
        drawn = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) / 8
        self.one, self.two = nn.Linear(64, 64), nn.Linear(64, 64)
        self.one.weight = self.two.weight = nn.Parameter(drawn)
        self.out = nn.Linear(64, 4)
        with torch.no_grad():
            for bias in (self.one.bias, self.two.bias, self.out.bias):
                bias.zero_()
            self.out.weight.copy_(drawn[:4])

    def forward(self, x):
        return self.out(self.two(self.one(x.flatten(1)).relu()).relu())


def test_an_average_of_tied_parameters_stays_tied(tmp_path):
    got = train(config(optim__ema=0.9, optim__epochs=1), tmp_path / "run", Tied())
    held = sealed.read(max(Run(tmp_path / "run").checkpoints.iterdir())).tensors
    assert torch.equal(got.model.one.weight, held["average-theta/one.weight"])
    assert got.model.one.weight is got.model.two.weight


def test_clipping_is_of_the_whole_gradients_norm():
    settings = {"optim.batch": 1000, "optim.epochs": 1, "optim.lr": 1.0, "optim.momentum": 0.0}
    settings |= {"optim.weight_decay": 0.0, "optim.schedule": "cosine"}
    start = Small()
    moves = {}
    for clip in ("auto", 0.01, 1e6):
        got = train(settings_of({**settings, "optim.clip": clip}))
        pairs = zip(got.model.parameters(), start.parameters(), strict=True)
        moves[clip] = torch.cat([(after - before).flatten() for after, before in pairs]).detach()
    assert torch.equal(moves["auto"], moves[1e6])
    by_hand = moves["auto"] * 0.01 / moves["auto"].norm()
    torch.testing.assert_close(moves[0.01], by_hand, rtol=1e-3, atol=1e-6)


def test_schedules_begin_and_end_where_they_should():
    steps = [(epoch, part / 4) for epoch in range(10) for part in range(4)]
    rates = {name: [rate(0.2, epoch, 10, part) for epoch, part in steps] for name, rate in SCHEDULES.items()}
    assert [round(rate, 12) for rate in rates["piecewise"]] == [0.2] * 12 + [0.02] * 12 + [0.002] * 16
    assert rates["cosine"][0] == 0.2
    assert rates["cosine"][20] == pytest.approx(0.1)
    assert rates["cosine"] == sorted(rates["cosine"], reverse=True)
    assert SCHEDULES["cosine"](0.2, 9, 10, 1.0) == pytest.approx(0)
    cycle = rates["one-cycle"]
    assert (cycle[0], max(cycle), cycle.index(max(cycle))) == (0, pytest.approx(0.2), 16)
    assert cycle[:17] == sorted(cycle[:17])
    assert cycle[16:] == sorted(cycle[16:], reverse=True)
    assert SCHEDULES["one-cycle"](0.2, 9, 10, 1.0) == pytest.approx(0)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_step_takes_the_rate_of_its_place(monkeypatch, name):
    step, rates = loop.weighted_step, []

    def spy(net, optimizer, *more):
        rates.append(optimizer.param_groups[0]["lr"])
        return step(net, optimizer, *more)

    monkeypatch.setattr(loop, "weighted_step", spy)
    got = train(config(optim__schedule=name, optim__epochs=2))
    n = len(rates) // 2
    assert rates == [SCHEDULES[name](0.1, t // n, 2, t % n / n) for t in range(2 * n)]
    assert [epoch.lr for epoch in got.history] == [rates[n - 1], rates[-1]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, when it loads its compiler
@pytest.mark.parametrize(
    ("options", "close"),
    [
        ({"compute.precision": "bf16"}, 0.05),
        ({"compute.channels_last": True}, 1e-3),
        pytest.param({"compute.compile": True}, 1e-3, marks=pytest.mark.long),
    ],
)
def test_ways_to_compute_train_alike(options, close):
    settings = {"scheme.name": "learned", "optim.epochs": 1, "optim.batch": 70, "optim.lr": 0.01}
    plain, other = train(settings_of(settings)), train(settings_of({**settings, **options}))
    losses = plain.history[0].loss, other.history[0].loss
    assert losses[0] == pytest.approx(losses[1], abs=close)
    assert all(p.dtype == torch.float32 for p in other.model.parameters())
    for a, b in zip(plain.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=close, atol=close)
    # The option does something, which in the last bits need not show.
    assert options != {"compute.precision": "bf16"} or losses[0] != losses[1]
    assert options != {"compute.compile": True} or torch._dynamo.utils.counters["stats"]["unique_graphs"]


# The weight history.


@pytest.mark.parametrize("every", [1, 2])
def test_the_weight_history_is_what_the_steps_saw_at_two_bytes_a_value(tmp_path, monkeypatch, every):
    step, seen = loop.bilaw_step, []

    def spy(net, optimizer, batch: Batch, *more):
        record = step(net, optimizer, batch, *more)
        margins = [margin(logits, batch.y) for logits in (record.terms.logits, record.terms.logits_adv)]
        omega, y, logits = more[1].scheme.omega, batch.y, (record.terms.logits, record.terms.logits_adv)
        clean, attacked = (omega.network(p.gather(1, y[:, None]) - p) for p in (z.softmax(1) for z in logits))
        values = [record.w * len(record.w), *margins, (attacked / clean.mean()).detach()]
        seen.append((batch.index, torch.stack(values).half()))
        return record

    monkeypatch.setattr(loop, "bilaw_step", spy)
    train(config(scheme__name="learned", log__weights_every=every, seed=2), tmp_path / "run")
    run = Run(tmp_path / "run")
    places, (values, epochs, rows) = run.splits()["train"], run.weights()
    assert values == ("weight", "clean margin", "adversarial margin", "adversarial weight")
    assert epochs == list(range(0, 3, every))
    assert rows.dtype == np.float16
    assert (tmp_path / "run" / "weights.f16").stat().st_size == 2 * len(epochs) * len(values) * len(places)
    steps = len(seen) // 3
    for epoch, row in zip(epochs, rows, strict=True):
        expected = torch.full((4, 180), torch.nan, dtype=torch.float16)
        for index, told in seen[epoch * steps : (epoch + 1) * steps]:
            expected[:, index] = told
        np.testing.assert_array_equal(row[:3], expected[:3, places].numpy())
        np.testing.assert_allclose(row[3], expected[3, places].numpy(), rtol=1e-3)
    assert np.nanmean(rows[:, 0]) == pytest.approx(1, abs=1e-3)


def test_no_weight_history_when_none_is_asked_for(tmp_path):
    train(config(log__weights_every=0, optim__epochs=1), tmp_path / "run")
    assert (tmp_path / "run" / "weights.f16").stat().st_size == 0
    assert Run(tmp_path / "run").weights()[1] == []


# A network from another run.


def test_a_pretrained_network_comes_from_a_runs_folder(tmp_path):
    learned = train(config(scheme__name="learned", scheme__lr=0.05), tmp_path / "learned")
    settings = {"scheme.name": "pretrained", "scheme.network": str(tmp_path / "learned"), "optim.epochs": 2}
    got = train(settings_of(settings), tmp_path / "run")
    assert bits(got.omega.network.state_dict()) == bits(learned.omega.network.state_dict())
    assert bits(load_file(Run(tmp_path / "learned").omega)) == bits(learned.omega.network.state_dict())
    assert all(epoch.ess < 1 for epoch in got.history)
    assert bits(got.model.state_dict()) != bits(train(config(optim__epochs=2)).model.state_dict())


def test_a_pretrained_network_that_has_changed_is_not_gone_on_with(tmp_path):
    train(config(scheme__name="learned"), tmp_path / "learned")
    settings = settings_of({"scheme.name": "pretrained", "scheme.network": str(tmp_path / "learned")})
    run = stopped(tmp_path / "run", settings)
    held = load_file(Run(tmp_path / "learned").omega)
    about = {"features": "multiclass-margin", "margin_from": "clean"}
    Run(tmp_path / "learned").save_omega({name: value + 1 for name, value in held.items()}, about)
    with pytest.raises(ValueError, match=r"scheme\.network = .* goes on with what it has"):
        fit(Small(), dataset(), run=run, resume=True)


def test_the_folder_says_what_was_run(tmp_path):
    got = train(config(scheme__name="learned"), tmp_path / "run")
    run = Run(tmp_path / "run")
    assert run.status().state == "finished"
    assert run.status().best["epoch"] == got.best.epoch
    assert run.config().compute.threads == 1
    assert {"versions", "device", "git", "command"} <= run.environment().keys()
    parts = run.splits()
    assert torch.cat([parts["train"], parts["meta"], parts["select"]]).sort().values.tolist() == list(range(180))
    told = [line for line in run.metrics() if line.get("event") == "note"]
    assert any("BatchNorm" in line["text"] for line in told)
    assert json.loads(json.dumps(run.epochs())) == run.epochs()
    assert got.run == run.path


def test_uneven_classes_are_trained_on_with_a_note(tmp_path):
    held = images()
    some = torch.cat([(held.y == c).nonzero().flatten()[:n] for c, n in enumerate((45, 45, 40, 8))])
    told = []
    uneven = Dataset("uneven", Images(held.x[some], held.y[some]), None, CLASSES, augment=False)
    settings = config(optim__epochs=1, scheme__name="learned", data__meta="auto", data__select="auto")
    train(settings, tmp_path / "run", data=uneven, note=told.append)
    assert {len(part) for name, part in Run(tmp_path / "run").splits().items() if name != "train"} == {8}
    assert any(text.startswith("class 3 has 8 of 138 samples: meta and select hold 8 samples each") for text in told)


def test_a_run_goes_on_whatever_is_said_of_its_settings(tmp_path, monkeypatch):
    run = stopped(tmp_path / "run", config(optim__lr=1))
    group = bilaw_settings.groups()["optim"]
    reworded = group._replace(settings=tuple(s._replace(meaning="in other words") for s in group.settings))
    monkeypatch.setattr(bilaw_settings, "groups", lambda: {**GROUPS, "optim": reworded})
    assert "in other words" in bilaw_settings.to_toml(Config())
    assert fit(Small(), dataset(), run=run, resume=True).run == run


def test_the_identity_is_of_names_and_values():
    same = identity(Config())
    assert identity(from_toml(bilaw_settings.to_toml(Config()))) == same
    assert identity(override(Config(), {"attack.eps": 1})) == identity(Config(attack=AttackConfig(eps=1)))
    assert identity(Config(attack=AttackConfig(eps=1.0))) == identity(Config(attack=AttackConfig(eps=1)))
    others = [{"seed": 1}, {"data.name": "mnist"}, {"scheme.hidden": "64,64"}, {"optim.ema": 0.9}]
    assert len({same, *(identity(override(Config(), values)) for values in others)}) == 5
