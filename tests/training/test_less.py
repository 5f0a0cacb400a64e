"""Less of the rate at first (warm-up), less of the data (data.train)."""

import pytest
import torch
from training_kit import Small, config, dataset

from bilaw.config import DataConfig, OptimConfig
from bilaw.datasets.splits import split
from bilaw.errors import Refused
from bilaw.training import loop
from bilaw.training.feed import feed
from bilaw.training.fit import fit
from bilaw.training.schedule import SCHEDULES, rate


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("share", [0.1, 0.25, 1.0])
def test_warm_up_rises_linearly_from_zero_and_then_leaves_the_schedule_alone(name, share):
    for tenth in range(80):
        epoch, part = divmod(tenth, 10)
        plain = SCHEDULES[name](0.2, epoch, 8, part / 10)
        done = (epoch + part / 10) / 8
        assert rate(name, 0.2, epoch, 8, part / 10, share) == pytest.approx(plain * min(1, done / share))
        assert rate(name, 0.2, epoch, 8, part / 10) == plain


def test_every_step_of_a_run_takes_the_risen_rate(monkeypatch):
    step, rates = loop.weighted_step, []

    def spy(net, optimizer, *more):
        rates.append(optimizer.param_groups[0]["lr"])
        return step(net, optimizer, *more)

    monkeypatch.setattr(loop, "weighted_step", spy)
    fit(Small(), dataset(), config(optim__warmup=0.5, optim__epochs=2, optim__schedule="cosine"))
    n = len(rates) // 2
    by_hand = [SCHEDULES["cosine"](0.1, t // n, 2, t % n / n) * min(1, t / n) for t in range(2 * n)]
    assert rates == pytest.approx(by_hand)
    assert rates[0] == 0


@pytest.mark.parametrize("warmup", [0, -0.1, 1.1, float("nan"), True, "x"])
def test_a_warm_up_that_is_no_share_is_refused(warmup):
    with pytest.raises(Refused, match=r"optim\.warmup"):
        OptimConfig(warmup=warmup)


def test_fewer_samples_are_balanced_and_the_same_with_and_without_a_meta_set():
    y = torch.arange(400) % 4
    whole = split(y, 4, meta=40, select=40, seed=3)
    parts = {meta: split(y, 4, meta=meta, select=40, seed=3, train=81) for meta in (0, 40)}
    assert torch.equal(parts[0].train, parts[40].train)
    assert sorted(torch.bincount(y[parts[0].train]).tolist()) == [20, 20, 20, 21]
    assert set(parts[40].train.tolist()) <= set(whole.train.tolist())
    assert torch.equal(parts[40].select, whole.select)
    assert torch.equal(parts[40].meta, whole.meta)
    assert not torch.equal(parts[0].train, split(y, 4, meta=0, select=40, seed=4, train=81).train)


def test_a_run_learns_from_as_many_samples_as_it_is_told():
    held = dataset()
    made = feed(held.train, 4, False, config(data__train=50, optim__batch=20), "cpu")
    assert len(made.parts.train) == 50
    seen = torch.cat([batch.index for batch in made.train.epoch(0)])
    assert set(seen.tolist()) <= set(made.parts.train.tolist())


@pytest.mark.parametrize("train", [500, 145])
def test_more_samples_than_there_are_is_refused(train):
    with pytest.raises(Refused, match=r"data\.train"):
        feed(dataset().train, 4, False, config(data__train=train, scheme__name="learned"), "cpu")


@pytest.mark.parametrize("train", [1, 0, 2.5, "x"])
def test_a_number_of_samples_that_is_none_is_refused(train):
    with pytest.raises(Refused, match=r"data\.train"):
        DataConfig(train=train)
