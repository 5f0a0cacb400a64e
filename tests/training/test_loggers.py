"""TensorBoard by reading its files back; Weights & Biases and MLflow by modules that take their place."""

import struct
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
import torch
from tensorboardX.proto.event_pb2 import Event, SessionLog
from training_kit import Small, config, dataset

from bilaw.runs import Run
from bilaw.training import keepers, loop
from bilaw.training.fit import Watch, fit
from bilaw.training.guards import Look

NAN = float("nan")


class Crash(BaseException):
    """The process dies here."""


def events(file):
    """The events of a TFRecord file."""
    held, found = file.read_bytes(), []
    while held:
        (length,) = struct.unpack("<Q", held[:8])
        found.append(Event.FromString(held[12 : 12 + length]))
        held = held[16 + length :]
    return found


def shown(run):
    """What TensorBoard shows: {tag: [(step, value)]}, after a START at step s has purged all at s and later."""
    tags = {}
    for file in sorted(run.events.iterdir(), key=lambda file: int(file.suffix[1:])):
        for event in events(file):
            if event.session_log.status == SessionLog.START:
                tags = {tag: [kept for kept in points if kept[0] < event.step] for tag, points in tags.items()}
            for value in event.summary.value:
                tags.setdefault(value.tag, []).append((event.step, value.simple_value))
    return {tag: points for tag, points in tags.items() if points}


def crash_at(monkeypatch, name, count):
    """Let `Folder.name` end the process after its `count`-th call."""
    original, calls = getattr(keepers.Folder, name), []

    def trapped(*args):
        got = original(*args)
        calls.append(name)
        if len(calls) == count:
            raise Crash
        return got

    monkeypatch.setattr(keepers.Folder, name, trapped)


def train(run, resume=False, **settings):
    given = None if resume else config(**{"scheme__name": "learned", "optim__ema": 0.9, **settings})
    return fit(Small(), dataset(), given, run=run, resume=resume)


def steady(tags):
    return {tag: points for tag, points in tags.items() if not tag.startswith("time/")}


@pytest.mark.parametrize(("name", "count"), [("epoch", 2), ("checkpoint", 3), ("checkpoint", 4)])
def test_event_files_of_a_resumed_run_show_every_point_once(tmp_path, monkeypatch, name, count):
    whole = train(tmp_path / "whole", log__to="tensorboard", log__checkpoint_steps=5)
    crash_at(monkeypatch, name, count)
    with pytest.raises(Crash):
        train(tmp_path / "run", log__to="tensorboard", log__checkpoint_steps=5)
    monkeypatch.undo()
    train(tmp_path / "run", resume=True)
    tags, expected = shown(Run(tmp_path / "run")), shown(Run(tmp_path / "whole"))
    assert steady(tags) == steady(expected)
    assert {tag: [step for step, _ in points] for tag, points in tags.items()} == {
        tag: [step for step, _ in points] for tag, points in expected.items()
    }
    steps = len(whole.history) * -(-len(Run(tmp_path / "whole").splits()["train"]) // 20)
    assert [step for step, _ in tags["step/loss"]] == list(range(1, steps + 1))
    assert [value for _, value in tags["select/robust"]] == pytest.approx([epoch.robust for epoch in whole.history])
    assert {"select/clean", "epoch/lr", "epoch/loss", "epoch/ess", "step/ess", "time/ms_a_step"} <= tags.keys()
    assert "select/one_step" not in tags


def test_events_are_on_the_disk_at_the_end_of_each_epoch(tmp_path):
    def look(epoch):
        assert len(shown(Run(tmp_path / "run"))["select/robust"]) == epoch.epoch + 1

    fit(Small(), dataset(), config(log__to="tensorboard"), run=tmp_path / "run", watch=Watch(epoch=look))


def collapse(monkeypatch):
    """After the second epoch's peak a third, which is taken back with the fourth."""
    robust, one_step = [0.3, 0.5, 0.45, 0.1], [0.4, 0.6, 0.7, 0.9]

    def judge(classifier, select, config, epoch, watched):
        return Look(epoch, 0.9, robust[epoch], one_step[epoch]) if watched else Look(epoch, 0.9, 0.2, NAN)

    monkeypatch.setattr(loop, "judge", judge)


def test_a_roll_back_purges_what_it_takes_back(tmp_path, monkeypatch):
    collapse(monkeypatch)
    train(tmp_path / "run", log__to="tensorboard", attack__name="f-fgsm", optim__epochs=4)
    tags = shown(Run(tmp_path / "run"))
    steps = [step for step, _ in tags["step/loss"]]
    assert steps == list(range(1, len(steps) + 1))
    assert [value for _, value in tags["select/robust"]] == pytest.approx([0.3, 0.5, 0.2, 0.2])


@pytest.fixture
def stand_in(monkeypatch):
    """Give a module a place among those installed."""

    def place(name, **values):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)

    return place


class FakeWandb:
    def __init__(self):
        self.runs, self.inits, self.open = {}, [], None

    def init(self, **given):
        assert self.open is None
        self.inits.append(given)
        self.open = given["id"]
        log = self.runs.setdefault(self.open, [])
        metrics = []

        def take(values, step=None):
            assert metrics == [("*", "step")]
            assert step is None  # its own counter cannot go back
            log.append(values)

        def finish():
            self.open = None

        return SimpleNamespace(
            define_metric=lambda name, step_metric: metrics.append((name, step_metric)), log=take, finish=finish
        )


class FakeMLflow:
    def __init__(self):
        self.runs, self.names, self.open, self.params = {}, [], None, []

    def start_run(self, run_id=None, run_name=None):
        assert self.open is None, "Run is already active"
        if run_id is None:
            run_id = f"id-{len(self.runs)}"
            self.names.append(run_name)
            self.runs[run_id] = []
        assert run_id in self.runs
        self.open = run_id
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def log_params(self, params):
        self.params.append(params)

    def log_metrics(self, values, step):
        self.runs[self.open].append({**values, "step": step})

    def end_run(self):
        self.open = None


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_resumed_run_goes_on_in_the_run_that_the_logger_knows(tmp_path, monkeypatch, stand_in, name):
    fake = FakeWandb() if name == "wandb" else FakeMLflow()
    public = ("init",) if name == "wandb" else ("start_run", "log_params", "log_metrics", "end_run")
    stand_in(name, **{part: getattr(fake, part) for part in public})
    for run in ("one/run", "two/run"):  # folders of one name are two runs all the same
        crash_at(monkeypatch, "checkpoint", 3)
        with pytest.raises(Crash):
            train(tmp_path / run, log__to=name)
        assert fake.open is None
        monkeypatch.undo()
        stand_in(name, **{part: getattr(fake, part) for part in public})
        train(tmp_path / run, resume=True)
    assert len(fake.runs) == 2
    for logged in fake.runs.values():
        steps = [values["step"] for values in logged if "step/loss" in values]
        assert steps == list(range(1, len(steps) + 1))
        assert len([values for values in logged if "select/robust" in values]) == 3
        assert all(isinstance(value, float | int) for values in logged for value in values.values())
    if name == "wandb":
        assert [given["id"] for given in fake.inits[::2]] == [given["id"] for given in fake.inits[1::2]]
        assert {given["resume"] for given in fake.inits} == {"allow"}
        assert {given["name"] for given in fake.inits} == {"run"}
        assert fake.inits[0]["config"]["attack.eps"] == 0.1
    else:
        assert fake.names == ["run", "run"]
        assert len(fake.params) == 2


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_loggers_that_are_not_installed_are_refused_before_anything_is_made(tmp_path, monkeypatch, name):
    monkeypatch.setattr("bilaw.training.loggers.find_spec", lambda package: None)
    with pytest.raises(ValueError, match=f"pip install {name}"):
        train(tmp_path / "run", log__to=name)
    assert not list(tmp_path.iterdir())


def test_the_bits_do_not_depend_on_who_listens(tmp_path):
    one = train(tmp_path / "run", log__to="tensorboard")
    other = train(None)
    for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(a, b)
