"""Every name of a table makes its own entry, and a line in a table is all that a new one takes."""

from dataclasses import dataclass

import pytest
from torch import nn

from bilaw.attacks import ATTACKS, PGD
from bilaw.config import AttackConfig, Config, LossConfig, MetaConfig, SchemeConfig, training_attacks
from bilaw.effects import without_effect
from bilaw.losses import LOSSES, AdversarialCE, Trades
from bilaw.settings import override
from bilaw.training.build import build_attack, build_loss, build_method, build_weighting
from bilaw.training.fit import fit
from bilaw.weighting import SCHEMES, Uniform

USED = []


@dataclass(frozen=True)
class Halved(AdversarialCE):
    strength: float = 1.0

    def __call__(self, *arguments):
        USED.append(self)
        terms = super().__call__(*arguments)
        return terms._replace(robust=self.strength * terms.robust)


@dataclass(frozen=True)
class Sideways(PGD):
    def __call__(self, *arguments):
        USED.append(self)
        return super().__call__(*arguments)


@dataclass(frozen=True)
class Loudest(Uniform):
    margin_from: str = "adversarial"

    def __call__(self, terms, adversarial, y):
        USED.append(self)
        return terms.robust.detach()


@pytest.fixture
def enrolled(monkeypatch):
    USED.clear()
    monkeypatch.setitem(LOSSES, "halved", Halved)
    monkeypatch.setitem(ATTACKS, "sideways", Sideways)
    monkeypatch.setitem(SCHEMES, "loudest", Loudest)


NEW = {
    "halved": ({"loss.name": "halved", "loss.strength": 0.5}, Halved(0.5)),
    "sideways": (
        {"attack.name": "sideways", "attack.steps": 2, "loss.name": "trades"},
        Sideways(0.1, steps=2, start="gaussian", objective="kl"),
    ),
    "loudest": ({"scheme.name": "loudest", "scheme.margin_from": "clean"}, Loudest("clean")),
}


@pytest.mark.parametrize("name", NEW)
def test_one_line_enrols_it_in_a_run(enrolled, name, tmp_path):
    values, made = NEW[name]
    base = {"optim.epochs": 1, "optim.batch": 512, "attack.steps": 1, "select.steps": 1, "log.to": "none"}
    config = override(Config(), {**base, **values})
    assert without_effect(config, values) == {}
    fit("fc1", "digits", config, run=tmp_path / "run")
    assert USED
    assert set(USED) == {made}


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_its_own(name):
    assert type(build_loss(LossConfig(name))) is LOSSES[name]


@pytest.mark.parametrize("name", sorted(training_attacks()))
@pytest.mark.parametrize("loss", [AdversarialCE(), Trades()])
def test_every_attack_is_its_own_and_suits_the_loss(name, loss):
    made, plain = build_attack(AttackConfig(name, eps=0.2, norm="l2"), loss), ATTACKS[name](0.2)
    assert type(made) is type(plain)
    assert (made.eps, made.norm, made.objective) == (0.2, "l2", loss.objective)
    if name == "pgd":
        assert made == PGD(0.2, "l2", 10, None, loss.start, loss.objective)
    else:
        assert (made.steps, made.step_size, made.start) == (plain.steps, plain.step_size, plain.start)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_is_its_own(name, tmp_path):
    network = None
    if name == "pretrained":
        from safetensors.torch import save_file

        from bilaw.weighting import WeightNet

        network = str(tmp_path / "omega.safetensors")
        save_file(WeightNet(4).state_dict(), network, {"features": "multiclass-margin"})
    config = Config(scheme=SchemeConfig(name, network=network))
    weighting = build_weighting(config, 4)
    assert type(weighting.scheme) is SCHEMES[name]
    assert build_method(config, weighting.scheme).scheme is weighting.scheme


class Demanding(nn.Module):
    def __init__(self, teacher):
        super().__init__()


@pytest.mark.parametrize(
    ("table", "make"),
    [
        (LOSSES, lambda: LossConfig("demanding")),
        (LOSSES, lambda: MetaConfig(loss="demanding")),
        (SCHEMES, lambda: SchemeConfig("demanding")),
    ],
)
def test_what_settings_cannot_make_is_refused_at_the_door(monkeypatch, table, make):
    monkeypatch.setitem(table, "demanding", Demanding)
    with pytest.raises(ValueError, match=r"(name|loss) = 'demanding' is not accepted; .* this needs teacher"):
        make()


def test_an_attack_that_climbs_nothing_of_the_losss_is_refused():
    for name in ("none", "weight-aware-pgd"):
        with pytest.raises(ValueError, match=rf"attack\.name = '{name}' is not accepted; it takes one of f-fgsm"):
            AttackConfig(name)
