"""`fit`: a model, data and settings in, a trained classifier out; with a run folder, nothing is lost when killed."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from bilaw import runs
from bilaw.config import Config
from bilaw.datasets.data import Dataset, shape_of
from bilaw.datasets.own import as_dataset
from bilaw.datasets.table import load as load_data
from bilaw.errors import Refused, refuse
from bilaw.models.own import load_model
from bilaw.models.weights import load_weights
from bilaw.training import loggers
from bilaw.training.device import computing, resolve
from bilaw.training.environment import environment
from bilaw.training.guards import Diverged, Interrupted
from bilaw.training.keepers import Folder, Keeper, Memory
from bilaw.training.loop import Loop
from bilaw.training.paths import absolute
from bilaw.training.resume import go_back, to_resume
from bilaw.training.setup import Setup
from bilaw.training.watch import Epoch, Watch
from bilaw.weighting import Omega

__all__ = ["Diverged", "Epoch", "Interrupted", "Result", "Watch", "fit"]


class Result(NamedTuple):
    """A trained classifier: the parameters of its best epoch on *select*."""

    model: nn.Module
    best: Epoch
    history: list[Epoch]
    omega: Omega | None  # the weight network of that epoch, where one was used
    run: Path | None  # the run's folder, if it has one


def fit(
    model: nn.Module | str,
    data: Any,
    config: Config | None = None,
    *,
    run: Path | str | None = None,
    resume: bool = False,
    watch: Watch | None = None,
) -> Result:
    """Train `model` in place on the training half of `data`, and leave it at its best epoch.

    `model` is a module or a name (`config.model.name`), `data` a name, a `Dataset`, a pair of arrays (images, labels)
    or a map-style PyTorch data set. The settings are `bilaw train`'s, with the same defaults. The two held-out splits
    come out of the training half: *meta* for schemes that learn (others train on it), *select* for choosing the epoch.
    Test data are never looked at.

    With `run`, a new folder, everything is written there as it happens; `resume` goes on with the run in it, to the
    same bits, on the settings it has. Without, nothing is written. Threads, seeds and flags are left as they were.
    """
    if torch.is_inference_mode_enabled():
        refuse("torch.inference_mode", True, "False around fit: what is made in that mode never takes a gradient")
    watch = watch or Watch()
    folder = None if run is None else Path(run)
    if resume:
        config = to_resume(folder).config() if config is None else config
    config = Config() if config is None else config
    if not isinstance(config, Config):
        refuse("config", config, "a bilaw.Config (of TOML text: bilaw.settings.from_toml)")
    if isinstance(data, Dataset):
        data = data._replace(test=None)
    dataset = load_data(data, config.data.root) if isinstance(data, str) else as_dataset(data)
    module, config = _module(model, dataset, config)
    config = replace(config, data=replace(config.data, name=dataset.name if not isinstance(data, str) else data))
    config = replace(config, compute=resolve(config.compute, module))
    loggers.check_installed(config.log.to)
    if folder and not resume:
        runs.check_new(folder)
    home = _device(module)
    with computing(config.compute):
        try:
            setup = Setup(module, dataset, config)  # names paths as the user did, in what it refuses
            setup.write_down(absolute(config) if isinstance(data, str) else replace(absolute(config), data=config.data))
            with closing(_keeper(setup, folder, resume)) as keeper:
                loop = Loop(setup, keeper, watch)
                if resume:
                    go_back(loop, to_resume(folder))
                _run(loop)
                return _result(loop, home)
        finally:
            module.to(home)


def _keeper(setup: Setup, folder: Path | None, resume: bool) -> Keeper:
    """Return who keeps what the run leaves behind; nobody else may work in its folder from now on."""
    if folder is None:
        return Memory()
    if resume:
        return Folder(to_resume(folder))
    config, parts = setup.config, setup.feed.parts._asdict()
    return Folder(runs.Run.create(folder, config, environment(config.compute), parts))


def _run(loop: Loop) -> None:
    keeper, epochs = loop.keeper, loop.config.optim.epochs
    try:
        keeper.status("running", loop.here.epoch, epochs, loop.here.best)
        keeper.open_loggers(loop.here.t - loop.here.step)  # they are told of whole epochs
        if not loop.saved:
            loop.begin()
        _train(loop)
        keeper.status("finished", loop.here.epoch, epochs, loop.here.best)
    except (Interrupted, Diverged):
        raise  # they have said so themselves
    except BaseException as error:
        state = "failed" if isinstance(error, Exception) else "interrupted"
        with suppress(OSError):  # a full disk takes no status either; the first error is the one to tell
            keeper.status(state, loop.here.epoch, epochs, loop.here.best)
        raise


def _train(loop: Loop) -> None:
    try:
        loop.run()
    except Refused as error:  # the door let it pass: it is no matter of settings, and wants its traceback
        raise RuntimeError(f"in epoch {loop.here.epoch + 1}, step {loop.here.step + 1}: {error}") from error


def _result(loop: Loop, home: torch.device) -> Result:
    setup = loop.setup
    assert loop.here.best is not None  # the last epoch is always looked at
    weights, omega = loop.keeper.best_weights()
    setup.net.module.load_state_dict(dict(weights), strict=False)  # state that is no tensor is not kept
    if setup.learned and omega:
        setup.learned.omega.network.load_state_dict(dict(omega))
    if setup.omega:
        setup.omega.network.to(home)
    return Result(setup.net.module, loop.here.best, loop.keeper.history(), setup.omega, loop.keeper.path)


def _module(model: nn.Module | str, dataset: Dataset, config: Config) -> tuple[nn.Module, Config]:
    """Return the module and settings that name it: a module of the user's own is named by its class."""
    shape, classes = shape_of(dataset.train), len(dataset.classes)
    if isinstance(model, str):
        module = load_model(model, shape, classes, config.seed)
        name = model
    elif isinstance(model, nn.Module):
        module, name = model, f"{type(model).__module__}:{type(model).__qualname__}"
    else:
        refuse("model", model, "a torch.nn.Module, or a name")
    held = [*module.parameters(), *module.buffers()]
    if any(isinstance(value, UninitializedBuffer | UninitializedParameter) for value in held):
        refuse("model", name, "a module whose lazy layers have seen a batch, and so have weights")
    if any(value.is_meta for value in held):
        refuse("model", name, "a module with weights: these are on the meta device, which holds none")
    if config.model.weights is not None:
        load_weights(module, config.model.weights)
    return module, replace(config, model=replace(config.model, name=name))


def _device(module: nn.Module) -> torch.device:
    first = next(iter(module.parameters()), None)
    return torch.device("cpu") if first is None else first.device
