"""A run goes on from wherever it is called: what its settings name is found from any current folder."""

import numpy as np
import pytest
from safetensors.torch import save_file
from training_kit import config, differing, images, left_behind

from bilaw.models import build
from bilaw.runs import Run
from bilaw.training.fit import Interrupted, Watch, fit
from bilaw.training.paths import absolute
from bilaw.weighting import WeightNet


@pytest.fixture
def here(tmp_path, monkeypatch):
    home = tmp_path / "here"
    home.mkdir()
    monkeypatch.chdir(home)
    held = images()
    np.savez("own.npz", x=held.x.numpy(), y=held.y.numpy())
    save_file(build("fc1", (1, 8, 8), 4, seed=5).state_dict(), "start.safetensors")
    save_file(WeightNet(4).state_dict(), "omega.safetensors", {"features": "multiclass-margin"})
    return home


def test_what_exists_becomes_absolute_and_names_stay(here):
    given = {"data__root": ".", "model__weights": "start.safetensors", "scheme__name": "pretrained"}
    got = absolute(config(data__name="own.npz", scheme__network="omega.safetensors", **given))
    assert (got.data.name, got.data.root) == (str(here / "own.npz"), str(here))
    assert (got.model.weights, got.model.name) == (str(here / "start.safetensors"), "tiny-cnn")
    assert got.scheme.network == str(here / "omega.safetensors")
    assert absolute(got) == got
    (here / "digits").mkdir()  # a name of the table comes before a folder
    for name in ("digits", "mine:data", "absent.npz"):
        kept = config(data__name=name)
        assert absolute(kept) == kept


def test_a_run_with_relative_paths_goes_on_elsewhere_to_the_same_bits(here, tmp_path, monkeypatch):
    given = {"data__name": "own.npz", "model__weights": "start.safetensors", "optim__epochs": 2}
    given |= {"scheme__name": "pretrained", "scheme__network": "omega.safetensors"}
    fit("fc1", "own.npz", config(**given), run=tmp_path / "whole")
    done = []
    watch = Watch(step=lambda at, of: done.append(at), stop=lambda: len(done) == 3)
    with pytest.raises(Interrupted):
        fit("fc1", "own.npz", config(**given), run=tmp_path / "run", watch=watch)
    monkeypatch.chdir(tmp_path)
    kept = Run(tmp_path / "run").config()
    fit(kept.model.name, kept.data.name, kept, run=tmp_path / "run", resume=True)
    assert differing(left_behind(tmp_path / "whole"), left_behind(tmp_path / "run")) == []


def test_a_relative_path_in_python_goes_on_as_well(here, tmp_path):
    settings, done = config(data__name="own.npz", optim__epochs=2), []
    watch = Watch(step=lambda at, of: done.append(at), stop=lambda: len(done) == 3)
    with pytest.raises(Interrupted):
        fit("fc1", "own.npz", settings, run=tmp_path / "run", watch=watch)
    fit("fc1", "own.npz", settings, run=tmp_path / "run", resume=True)
    assert Run(tmp_path / "run").status().state == "finished"
