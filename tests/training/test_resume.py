"""Going on with a run whose files were lost or damaged: put right, or refused in a line that names the file."""

import json
import shutil
from pathlib import Path

import pytest
from training_kit import Small, bits, config, dataset

from bilaw import runs
from bilaw.runs import Run
from bilaw.training.fit import Interrupted, Watch, fit
from bilaw.training.history import Seen

DAMAGE = {"missing": None, "garbled": b'{"x\n', "of another kind": b"[]\n", "not text": b"\xff\xfe\n" * 400}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was interrupted in its second epoch; and the weights of one that was not."""
    folder, done = tmp_path_factory.mktemp("stopped") / "run", []
    watch = Watch(step=lambda at, of: done.append(at), stop=lambda: len(done) == 9)
    with pytest.raises(Interrupted):
        fit(Small(), dataset(), config(scheme__name="learned"), run=folder, watch=watch)
    return folder, bits(fit(Small(), dataset(), config(scheme__name="learned")).model.state_dict())


@pytest.fixture
def run(stopped, tmp_path):
    shutil.copytree(stopped[0], tmp_path / "run")
    return Run(tmp_path / "run")


def damage(path: Path, how):
    path.unlink() if DAMAGE[how] is None else path.write_bytes(DAMAGE[how])


def go_on(run):
    return fit(Small(), dataset(), run=run.path, resume=True)


@pytest.mark.parametrize("how", DAMAGE)
def test_what_follows_from_the_rest_is_put_right(how, stopped, run):
    names = ("status.json", "weights.json", "splits.safetensors", "lock")
    for name in names:
        damage(run.path / name, how)
    assert bits(go_on(run).model.state_dict()) == stopped[1]
    assert run.status().state == "finished"
    for name in ("weights.json", "splits.safetensors"):
        assert (run.path / name).read_bytes() == (stopped[0] / name).read_bytes()


@pytest.mark.parametrize("name", ["metrics.jsonl", "timing.jsonl", "weights.f16"])
@pytest.mark.parametrize("how", DAMAGE)
def test_what_cannot_be_put_right_is_refused_and_nothing_touched(name, how, run):
    if (name, how) == ("weights.f16", "not text"):
        return  # any bytes are numbers
    damage(run.path / name, how)
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=rf"{name} = .*: restore it, or start the run anew$"):
        go_on(run)
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("line", ["{}", '{"epoch": 1}', '{"epoch": "one", "back_to": []}'])
def test_metrics_that_lack_something_are_refused(line, run):
    file = run.path / "metrics.jsonl"
    file.write_text(line + " " * file.stat().st_size + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl = 'damaged'"):
        go_on(run)


@pytest.mark.parametrize("emptied", [True, False])
def test_lost_checkpoints_are_not_a_run_that_never_took_one(emptied, stopped, run):
    shutil.rmtree(run.checkpoints)
    if emptied:
        run.checkpoints.mkdir()
    metrics = (run.path / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"checkpoints = 'empty' .* restore them, or start the run anew"):
        go_on(run)
    assert (run.path / "metrics.jsonl").read_bytes() == metrics
    lines = [json.dumps(line) + "\n" for line in run.metrics() if "event" in line]
    (run.path / "metrics.jsonl").write_text("".join(lines))  # killed before its first epoch had ended
    assert bits(go_on(run).model.state_dict()) == stopped[1]


def test_the_best_weights_are_missed_at_once(run):
    run.best.unlink()
    with pytest.raises(ValueError, match=r"best\.safetensors = 'missing'"):
        go_on(run)


def test_a_best_epoch_that_found_no_room_is_not_claimed(monkeypatch, tmp_path):
    def full(self, weights, about):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs.Run, "save_best", full)
    with pytest.raises(OSError, match="No space left"):
        fit(Small(), dataset(), config(), run=tmp_path / "run")
    status = Run(tmp_path / "run").status()
    assert (status.state, status.best) == ("failed", None)


def test_a_run_that_noted_one_weight_a_sample_goes_on_so(tmp_path, monkeypatch, stopped):
    folder, done = tmp_path / "run", []
    describe = Run.describe_weights
    with monkeypatch.context() as then:
        then.setattr("bilaw.training.setup.Seen", lambda samples, device, omega: Seen(samples, device))
        then.setattr(Run, "describe_weights", lambda self, samples, networked: describe(self, samples, False))
        watch = Watch(step=lambda at, of: done.append(at), stop=lambda: len(done) == 9)
        with pytest.raises(Interrupted):
            fit(Small(), dataset(), config(scheme__name="learned"), run=folder, watch=watch)
    assert bits(go_on(Run(folder)).model.state_dict()) == stopped[1]
    values, epochs, rows = Run(folder).weights()
    assert values == runs.WEIGHT_VALUES
    assert rows.shape[:2] == (len(epochs), 3)
    assert epochs == [0, 1, 2]
