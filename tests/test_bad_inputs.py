"""Bad input, row by row: what a user may get wrong, and the one message that says so.

Every row ends with status 2 and one message on stderr that names the setting, the value and what is accepted;
no traceback, and nothing on the disk made or changed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from bilaw.cli import main
from bilaw.config import Config
from bilaw.models import build
from bilaw.recipes.methods import method
from bilaw.runs import Run
from bilaw.settings import override
from bilaw.training.fit import Interrupted, Watch, fit
from bilaw.training.loop import Loop

MODULE = """
import torch
from torch import nn

from torch.utils.checkpoint import checkpoint

class Net(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.layer, self.of = nn.Linear(64, 10), of
    def forward(self, x):
        return self.of(self.layer(x.flatten(1)))

class InTraining(Net):
    def forward(self, x):
        z = self.layer(x.flatten(1))
        return self.of(z) if self.training else z

class Saving(Net):
    def forward(self, x):
        return checkpoint(self.layer, x.flatten(1), use_reentrant=self.of)

class SavingInTraining(Saving):
    def forward(self, x):
        return super().forward(x) if self.training else self.layer(x.flatten(1))

class Detached(Net):
    def forward(self, x):
        return self.layer(x.flatten(1).detach())

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 10)
    def forward(self, x):
        return self.out(self.layer(x[:, 0])[0][:, -1])

class OwnRule(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x
    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient

number = 3
raises = lambda: 1 / 0
lazy = lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(10))
weightless = lambda: Net(lambda z: z).to("meta")
ends = lambda: exit(3)
gives_none = lambda: None
wants_depth = lambda depth: Net(None)
probabilities = lambda: Net(lambda z: z.softmax(1))
not_numbers = lambda: Net(lambda z: z * torch.nan)
nine_classes = lambda: Net(lambda z: z[:, :9])
one_logit = lambda: Net(lambda z: z[:, 0])
whole_numbers = lambda: Net(lambda z: z.round().long())
a_tuple = lambda: Net(lambda z: (z, z))
raises_later = lambda: Net(lambda z: {}["no such key"])
exits_later = lambda: Net(lambda z: exit(3))
frozen = lambda: Net(lambda z: z).requires_grad_(False)
later_probabilities = lambda: InTraining(lambda z: z.softmax(1))
later_not_numbers = lambda: InTraining(lambda z: z * torch.nan)
later_nine_classes = lambda: InTraining(lambda z: z[:, :9])
later_a_tuple = lambda: InTraining(lambda z: (z, z))
later_detached = lambda: InTraining(lambda z: z.detach())
later_raises = lambda: InTraining(lambda z: 1 / 0)
detached = lambda: Detached(None)
no_grad = lambda: Net(torch.no_grad()(lambda z: 2 * z))
saving = lambda: Saving(False)
saving_as_of_old = lambda: Saving(True)
saving_in_training = lambda: SavingInTraining(False)
saving_as_of_old_in_training = lambda: SavingInTraining(True)
recurrent = lambda: Recurrent()
own_rule = lambda: Net(OwnRule.apply)
one_by_one = lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))
wants_colour = lambda: nn.Sequential(nn.Conv2d(3, 10, 8), nn.Flatten())

one_class = lambda: (torch.zeros(40, 1, 8, 8), torch.zeros(40, dtype=torch.int64))
too_bright = lambda: (torch.full((40, 1, 8, 8), 300.0), torch.arange(40) % 2)
few_labels = lambda: (torch.zeros(40, 1, 8, 8), torch.arange(39) % 2)
"""

TOML = {
    "not": "eps: 8/255",
    "unknown_setting": "[attack]\nepz = 0.1",
    "unknown_table": "[atack]\neps = 0.1",
    "no_table": "attack = 0.1",
    "above_all_tables": "eps = 0.1",
    "a_table_for_a_number": "[attack.eps]\nvalue = 0.1",
    "text_for_a_number": "[optim]\nepochs = 'ten'",
    "part_of_a_number": "[optim]\nepochs = 2.5",
    "number_for_truth": "[compute]\ncompile = 1",
    "number_for_a_list": "[scheme]\nhidden = 64",
    "not_finite": "[attack]\neps = nan",
    "nul": '[data]\nname = "digits\\u0000"',
}

Row = tuple[str, tuple[str, ...]]

SETTINGS: tuple[Row, ...] = (
    ("train --atack.eps 0.1", ("--atack.eps", "did you mean --attack.eps?")),
    ("train --eps=8/255", ("--eps", "did you mean --attack.eps?")),
    ("train --lr 0.1", ("--lr", "did you mean --scheme.lr or --optim.lr?")),
    ("train --attack.eps", ("--attack.eps", "expected one argument", "bilaw train --help")),
    ("train digits", ("there is no place for 'digits'", "bilaw train --help")),
    ("train --help atack", ("--help = 'atack'", "did you mean 'attack'?")),
    ("train --attack.eps -1/255", ("--attack.eps", "expected one argument")),
    ("train --attack.eps=-1/255", ("attack.eps = -0.0039", "a finite number >= 0")),
    ("train --attack.eps 8/0", ("attack.eps = '8/0'", "a finite number, or a fraction such as 8/255")),
    ("train --attack.eps inf", ("attack.eps = 'inf'", "a finite number")),
    ("train --attack.norm l1", ("attack.norm = 'l1'", "one of l2, linf")),
    ("train --attack.name pdg", ("attack.name = 'pdg'", "one of f-fgsm, fgsm, pgd", "did you mean 'pgd'?")),
    ("train --attack.fraction 1.5", ("attack.fraction = 1.5", "above 0 and at most 1")),
    ("train --optim.epochs 0", ("optim.epochs = 0", "a whole number >= 1")),
    ("train --attack.steps 99999999999", ("attack.steps = 99999999999", "from 1 to 2147483647")),
    ("train --optim.epochs 1e3", ("optim.epochs = '1e3'", "a whole number")),
    ("train --optim.momentum 1", ("optim.momentum = 1.0", "from 0 up to, but not including, 1")),
    ("train --optim.ema 1", ("optim.ema = 1.0", "between 0 and 1, such as 0.999")),
    ("train --optim.batch 1", ("optim.batch = 1", "a whole number >= 2")),
    ("train --data.augment yes", ("data.augment = 'yes'", "true or false, or auto")),
    ("train --data.select 100000", ("data.select = 100000", "one sample to train on")),
    ("train --scheme.hidden 64,x", ("scheme.hidden = ['64', 'x']", "a list such as 64,64")),
    ("train --log.to tensorbord", ("log.to = 'tensorbord'", "did you mean 'tensorboard'?")),
    ("train --log.to mlflow", ("log.to = 'mlflow'", "pip install mlflow")),
    ("train --seed 9223372036854775808", ("seed = 9223372036854775808", "2**63 - 1")),
    ("train --method bilaw-trade", ("--method = 'bilaw-trade'", "did you mean 'bilaw-trades'?")),
    ("train --compute.device gpu", ("compute.device = 'gpu'", "a device of this machine: cpu")),
    ("train --compute.device cuda:77", ("compute.device = 'cuda:77'", "a device of this machine: cpu")),
    ("train --compute.device cpu:7", ("compute.device = 'cpu:7'", "a device of this machine: cpu")),
    ("train --attack.eps 0.1 --seed 1 --attack.eps=0.2", ("--attack.eps", "given twice")),
    ("train --run a --run b", ("--run", "given twice")),
    ("demo --seed 1 --seed 1", ("--seed", "given twice")),
    ("train --compute.device meta", ("compute.device = 'meta'", "a device that computes")),
    ("train --compute.threads 99999", ("compute.threads = 99999", "from 1 to 1024")),
    ("tran", ("COMMAND = 'tran'", "did you mean 'train'?")),
    ("demo --epochs many", ("optim.epochs = 'many'", "a whole number")),
    ("train --attack.eps 8", ("attack.eps = 8.0", "at most 1 with attack.norm = linf, as in 8/255")),
)

CONTRADICTIONS: tuple[Row, ...] = (
    ("train --method plain --scheme.name learned", ("scheme.name = 'learned'", "uniform when loss.name is plain")),
    ("train --scheme.name pretrained", ("scheme.network = 'auto'", "a file when scheme.name is pretrained")),
    ("train --scheme.network omega.safetensors", ("'omega.safetensors'", "auto unless scheme.name is pretrained")),
    ("train --method mart --scheme.name mail --scheme.preset official", ("'mail with mart'", "official settings")),
    ("train --method gairat --attack.fraction 0.8", ("attack.fraction = 0.8", "1 here", "known only after the attack")),
    (
        "train --method bilaw --scheme.margin_from adversarial --attack.fraction 0.8",
        ("attack.fraction = 0.8", "1 here"),
    ),
    ("train --attack.fraction 0.8", ("--attack.fraction 0.8 has no effect", "scheme.name = uniform")),
    ("train --scheme.lr 0.01", ("--scheme.lr 0.01 has no effect", "scheme.name = learned")),
    ("train --method plain --attack.steps 3", ("--attack.steps 3 has no effect", "a loss that is attacked")),
    ("train --attack.name fgsm --guard.overfitting off --attack.steps 3", ("--attack.steps 3", "attack.name = pgd")),
    ("train --method at --loss.inv_lambda 3", ("--loss.inv_lambda 3 has no effect", "loss.name = trades")),
    ("train --meta.every 2", ("--meta.every 2 has no effect", "scheme.name = learned or non-parametric")),
)

FILES: tuple[Row, ...] = (
    ("train --config absent.toml", ("--config = 'absent.toml'", "a readable TOML file", "No such file")),
    ("train --config folder", ("--config = 'folder'", "a readable TOML file")),
    ("train --config latin1.toml", ("--config = 'latin1.toml'", "UTF-8")),
    ("train --config not.toml", ("not.toml: not TOML", "line 1")),
    ("train --config unknown_setting.toml", ("there is no setting attack.epz", "did you mean attack.eps?")),
    ("train --config unknown_table.toml", ("there is no table [atack]", "did you mean attack?")),
    ("train --config no_table.toml", ("attack = 0.1", "a table: [attack]")),
    ("train --config above_all_tables.toml", ("there is no setting eps", "did you mean attack.eps?")),
    ("train --config a_table_for_a_number.toml", ("attack.eps = {'value': 0.1}", "a finite number, or a fraction")),
    ("train --config text_for_a_number.toml", ("optim.epochs = 'ten'", "a whole number")),
    ("train --config part_of_a_number.toml", ("optim.epochs = 2.5", "a whole number")),
    ("train --config number_for_truth.toml", ("compute.compile = 1", "true or false")),
    ("train --config number_for_a_list.toml", ("scheme.hidden = 64", "a list such as 64,64")),
    ("train --config not_finite.toml", ("attack.eps = nan", "a finite number")),
    ("train --config nul.toml", ("data.name = 'digits\\x00'", "without NUL")),
)

MODELS: tuple[Row, ...] = (
    ("train --model.name resnet", ("model = 'resnet'", "one of fc1, small-cnn, tiny-cnn, wrn-32-10, or any wrn-D-K")),
    ("train --model.name tiny-cn", ("model = 'tiny-cn'", "did you mean 'tiny-cnn'?")),
    ("train --model.name wrn-33-1", ("model = 'wrn-33-1'", "wrn-D-K with depth D = 6n + 2 (8, 14,", "width K")),
    ("train --model.name wrn-28-0", ("model = 'wrn-28-0'", "width K >= 1")),
    ("train --model.name wrn-28-99999", ("model.name = 'wrn-28-99999'", "memory")),
    (f"train --model.name wrn-28-{10**30}", ("model = 'wrn-28-1000", "or any wrn-D-K")),
    ("train --model.name mine:lazy", ("model = 'mine:lazy'", "lazy layers")),
    ("train --model.name mine:weightless", ("model = 'mine:weightless'", "meta device")),
    ("train --model.name mine:", ("model.name = 'mine:'", "module:function, such as mynets:resnet")),
    ("train --model.name absent:net", ("model.name = 'absent:net'", "No module named 'absent'")),
    ("train --model.name unfinished:net", ("model.name = 'unfinished:net'", "SyntaxError in it")),
    ("train --model.name script:net", ("model.name = 'script:net'", "SystemExit in it: 3")),
    ("train --model.name mine:probabilitys", ("a function that mine has", "did you mean 'probabilities'?")),
    ("train --model.name mine:number", ("model.name = 'mine:number'", "a function", "not a int")),
    ("train --model.name mine:raises", ("'mine:raises'", "ZeroDivisionError in it: division by zero")),
    ("train --model.name mine:ends", ("'mine:ends'", "SystemExit in it: 3")),
    ("train --model.name mine:exits_later", ("model = 'Net'", "SystemExit: 3, at ", "mine.py:")),
    ("train --model.name mine:gives_none", ("'mine:gives_none'", "returns a torch.nn.Module, not a NoneType")),
    ("train --model.name mine:wants_depth", ("'mine:wants_depth'", "out of shape", "not depth")),
    ("train --model.name mine:probabilities", ("model output = 'probabilities'", "leave out the final softmax")),
    ("train --model.name mine:not_numbers", ("model output = 'NaN or infinite'", "finite logits")),
    ("train --model.name mine:nine_classes", ("model output = '9 logits an image'", "10, one for each class")),
    ("train --model.name mine:one_logit", ("model output = (8,)", "logits of shape (8, classes)")),
    ("train --model.name mine:whole_numbers", ("model output = 'torch.int64'", "floating-point logits")),
    ("train --model.name mine:a_tuple", ("model output = 'tuple'", "logits of shape (8, classes)")),
    ("train --model.name mine:raises_later", ("model = 'Net'", "maps images (8, 1, 8, 8)", "KeyError: 'no such key'")),
    ("train --model.name mine:wants_colour", ("model = 'Sequential'", "maps images (8, 1, 8, 8)", "channels")),
    ("train --model.name mine:frozen", ("without trainable parameters", "parameters that require gradients")),
    ("train --model.name mine:later_probabilities", ("model output in train mode = 'probabilities'", "final softmax")),
    ("train --model.name mine:later_not_numbers", ("model output in train mode = 'NaN or infinite'", "finite logits")),
    ("train --model.name mine:later_nine_classes", ("model output in train mode = '9 logits an image'", "10, one for")),
    ("train --model.name mine:later_a_tuple", ("model output in train mode = 'tuple'", "logits of shape (8, classes)")),
    ("train --model.name mine:later_detached", ("in train mode = 'detached from the images'", "through autograd")),
    ("train --model.name mine:later_raises", ("model = 'InTraining'", "ZeroDivisionError")),
    (
        "train --model.name mine:detached",
        ("model output = 'detached from the images'", "through autograd", ".detach()"),
    ),
    ("train --model.name mine:no_grad", ("model output = 'detached from the images'", "torch.no_grad()")),
    ("train --model.name mine:saving", ("model = 'Saving'", "CheckpointError", "switch activation checkpointing off")),
    ("train --model.name mine:saving_as_of_old", ("model = 'Saving'", "switch activation checkpointing off")),
    ("train --model.name mine:saving_in_training", ("'SavingInTraining'", "switch activation checkpointing off")),
    ("train --model.name mine:saving_as_of_old_in_training", ("'SavingInTraining'", "switch activation checkpointing")),
    ("train --method bilaw --model.name mine:recurrent", ("meta.derivative = 'exact'", "use 'central' here", "mkldnn")),
    ("train --method bilaw --model.name mine:own_rule", ("meta.derivative = 'exact'", "use 'central' here", "jvp")),
    ("train --method bilaw --meta.batch 1 --model.name mine:one_by_one", ("meta.batch = 1", "more than 1 value")),
    ("train --model.weights absent.safetensors", ("model.weights = 'absent.safetensors'", "a file that exists")),
    ("train --model.weights pickle.pt", ("model.weights = 'pickle.pt'", "a pickle (.pt, .pth) is never loaded")),
    ("train --model.weights half.safetensors", ("model.weights = 'half.safetensors'", "a safetensors file")),
    ("train --model.weights folder", ("model.weights = 'folder'", "a safetensors file")),
    ("train --model.weights omega.safetensors", ("'omega.safetensors'", "weights of this model", "names differ")),
    ("train --model.weights wide.safetensors", ("'wide.safetensors'", "there and", "here")),
    ("train --model.weights nan.safetensors", ("model output = 'NaN or infinite'", "diverged run")),
    ("train --scheme.name pretrained --scheme.network pickle.pt", ("scheme.network = 'pickle.pt'", "never loaded")),
    ("train --scheme.name pretrained --scheme.network wide.safetensors", ("scheme.network", "which features it reads")),
    (
        "train --scheme.name pretrained --scheme.network silent.safetensors",
        ("scheme.network", "which features it reads"),
    ),
    ("train --scheme.name pretrained --scheme.network omega.safetensors", ("a network for 10 classes", "3 features")),
    ("train --scheme.name pretrained --scheme.network finished", ("'finished'", "no omega.safetensors in it")),
    ("train --scheme.name pretrained --scheme.network folder", ("= 'folder'", "no omega.safetensors in it")),
)

DATA: tuple[Row, ...] = (
    ("train --data.name digit", ("data = 'digit'", "one of cifar-10", "did you mean 'digits'?", ".npz file")),
    ("train --data.name mnist", ("mnist", "bilaw data get mnist")),
    (f"train --data.name {'a' * 300}.npz", ("data = 'aaa", "a path that can be looked up (File name too long)")),
    ("train --data.name absent.npz", ("data = 'absent.npz'", "a path that exists")),
    ("train --data.name script.py", ("data = 'script.py'", ".npz alone")),
    ("train --data.name half.npz", ("data = 'half.npz'", "an .npz file that is whole")),
    ("train --data.name objects.npz", ("objects.npz", "Python objects are never loaded")),
    ("train --data.name names.npz", ("names.npz", "x_train, y_train", "it has pictures, what")),
    ("train --data.name shorter.npz", ("4", "labels", "5")),
    ("train --data.name folder", ("data = 'folder'", "train/CLASS", "no folders of classes")),
    ("train --data.name damaged", ("b.png", "an image that can be read")),
    ("train --data.name sizes", ("b.png", "5 x 4 pixels", "images of one size, 4 x 4 pixels")),
    ("train --data.name absent:data", ("data = 'absent:data'", "No module named 'absent'")),
    ("train --data.name mine:raises", ("data = 'mine:raises'", "ZeroDivisionError: division by zero")),
    ("train --data.name mine:gives_none", ("NoneType", "arrays or tensors (x, y)")),
    ("train --data.name mine:too_bright", ("values in [300, 300]", "values in [0, 1]")),
    ("train --data.name mine:few_labels", ("39", "40", "label")),
    ("train --data.name mine:one_class", ("train labels = '0'", "at least two classes")),
    ("data get mnits", ("data = 'mnits'", "did you mean 'mnist'?")),
    ("data check mnits", ("data = 'mnits'", "did you mean 'mnist'?")),
)

RUNS: tuple[Row, ...] = (
    ("train --run folder", ("run = 'folder'", "a new or an empty folder")),
    ("train --run finished", ("run = 'finished'", "a new or an empty folder", "bilaw train --resume finished")),
    ("train --run pickle.pt", ("--run = 'pickle.pt'", "pickle.pt is a file")),
    ("train --run pickle.pt/below", ("--run = 'pickle.pt/below'", "pickle.pt is a file")),
    ("train --run ''", ("--run = ''", "a folder")),
    (f"train --run {'a' * 300}", ("--run = 'aaa", "at most 240 bytes")),
    (f"train --run {'é' * 121}/below", ("--run = 'é", "at most 240 bytes")),
    ("train --run \udcff", ("--run = '\\udcff'", "in Unicode")),
    (f"train --resume {'a' * 300}", ("--resume = 'aaa", "the folder of a run")),
    ("train --resume nonsense", ("--resume = 'nonsense'", "the folder of a run (`bilaw runs` lists them)")),
    ("train --resume folder", ("run = 'folder'", "the folder of a run, with a config.toml in it")),
    ("train --resume finished", ("run = 'finished'", "a run that has not finished", "--config")),
    ("train --resume stopped --optim.lr 1", ("--resume = 'stopped'", "no --optim.lr beside it")),
    ("train --resume stopped --run other", ("--resume = 'stopped'", "no --run beside it")),
    ("train --resume edited", ("config", "another than when the run began", "edited")),
    ("train --resume misspelt", ("misspelt", "there is no setting optim.learning_rate")),
    ("train --resume busy", ("run = 'busy'", "a run that nobody is at work on")),
    ("train --resume other_data", ("data", "another than when the run began", "other_data")),
    ("runs absent", ("FOLDER = 'absent'", "a folder that holds runs")),
    ("runs pickle.pt", ("FOLDER = 'pickle.pt'", "a folder that holds runs")),
)

TABLE = SETTINGS + CONTRADICTIONS + FILES + MODELS + DATA + RUNS


def test_the_table_is_as_long_as_promised() -> None:
    assert len({line for line, _ in TABLE}) == len(TABLE) >= 40


@pytest.fixture(scope="module")
def den(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with everything the rows name; no row may change it."""
    from PIL import Image

    here = tmp_path_factory.mktemp("den")
    (here / "mine.py").write_text(MODULE)
    (here / "unfinished.py").write_text("def net(:\n")
    (here / "script.py").write_text("import sys\nsys.exit(3)\n")
    for name, text in TOML.items():
        (here / f"{name}.toml").write_text(text + "\n")
    (here / "latin1.toml").write_bytes("# radius of the ball: \xe9\n".encode("latin1"))
    (here / "folder").mkdir()
    (here / "folder" / "notes.txt").write_text("not a run, not a data set\n")

    tiny = {name: value.clone() for name, value in build("tiny-cnn", (1, 8, 8), 10, seed=0).state_dict().items()}
    torch.save(tiny, here / "pickle.pt")
    save_file(tiny, here / "whole.safetensors")
    data = (here / "whole.safetensors").read_bytes()
    (here / "half.safetensors").write_bytes(data[: len(data) // 2])
    save_file({name: torch.full_like(value, torch.nan) for name, value in tiny.items()}, here / "nan.safetensors")
    save_file({name: torch.cat([value, value]) for name, value in tiny.items()}, here / "wide.safetensors")
    network = {"layers.0.weight": (4, 3), "layers.0.bias": (4,), "layers.2.weight": (1, 4), "layers.2.bias": (1,)}
    omega = {name: torch.zeros(shape) for name, shape in network.items()}
    save_file(omega, here / "omega.safetensors", {"features": "multiclass-margin", "margin_from": "clean"})
    save_file(omega, here / "silent.safetensors")

    x, y = np.zeros((40, 8, 8), dtype=np.uint8), np.arange(40) % 2
    np.savez(here / "whole.npz", x=x, y=y)
    data = (here / "whole.npz").read_bytes()
    (here / "half.npz").write_bytes(data[: len(data) // 2])
    np.savez(here / "objects.npz", x=x, y=y.astype(object))
    np.savez(here / "names.npz", pictures=x, what=y)
    np.savez(here / "shorter.npz", x=x[:5], y=y[:4])
    for name in ("damaged", "sizes"):
        for kind in ("cats", "dogs"):
            (here / name / kind).mkdir(parents=True)
            Image.new("L", (4, 4)).save(here / name / kind / "a.png")
    (here / "damaged" / "dogs" / "b.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    Image.new("L", (5, 4)).save(here / "sizes" / "dogs" / "b.png")
    _make_runs(here)
    with Run(here / "busy").hold():
        yield here


def _make_runs(here: Path) -> None:
    config = method("plain", override(Config(), {"optim.epochs": 1, "model.name": "fc1", "optim.batch": 512}))
    fit("fc1", "digits", config, run=here / "finished")
    seen: list[int] = []
    watch = Watch(step=lambda done, total: seen.append(done), stop=lambda: len(seen) == 2)
    with pytest.raises(Interrupted):
        fit("fc1", "digits", replace(config, seed=1), run=here / "stopped", watch=watch)
    for name, old, new in (
        ("edited", "momentum = 0.9", "momentum = 0.8"),
        ("misspelt", "momentum = 0.9", "learning_rate = 0.9"),
        ("other_data", 'name = "digits"', 'name = "whole.npz"'),
    ):
        shutil.copytree(here / "stopped", here / name)
        file = here / name / "config.toml"
        file.write_text(file.read_text().replace(old, new))
    shutil.copytree(here / "stopped", here / "busy")


@pytest.fixture
def inside(den: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(den)
    monkeypatch.setenv("BILAW_DATA", str(den / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(Loop, "run", _trains)  # a row that is let through would train for minutes
    yield den
    for name in ("mine", "unfinished", "script"):
        sys.modules.pop(name, None)


def _trains(loop: Loop) -> None:
    raise AssertionError("the run was let through, and training began")


def contents(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): None if path.is_dir() else (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
    }


def judge(err: str, fragments: tuple[str, ...]) -> None:
    lines = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1, err
    assert lines[0].startswith("bilaw: ")
    assert "Traceback" not in err
    assert [part for part in fragments if part not in err] == [], err


@pytest.mark.parametrize(("line", "fragments"), TABLE, ids=[line for line, _ in TABLE])
def test_bad_input_is_refused(
    line: str, fragments: tuple[str, ...], inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(inside)
    assert main(shlex.split(line)) == 2
    judge(capsys.readouterr().err, fragments)
    assert contents(inside) == before


OUTSIDE = [SETTINGS[0], SETTINGS[29], FILES[6], MODELS[6], DATA[4], RUNS[7]]


@pytest.mark.parametrize(("line", "fragments"), OUTSIDE, ids=[line for line, _ in OUTSIDE])
def test_bad_input_is_refused_by_the_command_itself(line: str, fragments: tuple[str, ...], inside: Path) -> None:
    before = contents(inside)
    command = [sys.executable, "-m", "bilaw.cli", *shlex.split(line)]
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert (ended.returncode, ended.stdout) == (2, "")
    judge(ended.stderr, fragments)
    assert contents(inside) == before
