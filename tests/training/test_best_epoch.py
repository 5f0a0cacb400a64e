"""Which epoch is kept: the most robust on *select*; of plain training, the most accurate."""

import pytest
from training_kit import Small, config, dataset

from bilaw.training import loop
from bilaw.training.fit import fit
from bilaw.training.guards import Look

CLEAN, ROBUST = [0.5, 0.7, 0.9, 0.9], [0.2, 0.3, 0.1, 0.3]


@pytest.mark.parametrize(("loss", "best"), [("adversarial-ce", 1), ("trades", 1), ("plain", 2)])
def test_the_best_epoch_is_the_first_best_at_what_the_loss_is_after(monkeypatch, loss, best):
    def judge(classifier, select, config, epoch, watched):
        return Look(epoch, CLEAN[epoch], ROBUST[epoch], float("nan"))

    monkeypatch.setattr(loop, "judge", judge)
    got = fit(Small(), dataset(), config(loss__name=loss, optim__epochs=4))
    assert got.best.epoch == best
