"""The paper's tables: which rows, measured where, with which recipe. A recipe is a function returning a `Config`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from bilaw.config import Config
from bilaw.recipes.methods import method
from bilaw.recipes.protocol import Setting
from bilaw.settings import override

Recipe = Callable[[Config], Config]


class Row(NamedTuple):
    """A row: what it is called, and how it is trained out of a setting's base."""

    name: str
    title: str
    recipe: Recipe
    adversary: str | None = None  # of the weight-aware table: "own" or "other" weight network, beside PGD
    donor: Recipe | None = None  # an earlier run, on another architecture, whose weight network it takes


class Place(NamedTuple):
    """A column: where the paper measures it, and where we do at this scale."""

    paper: Setting
    ours: Setting


@dataclass(frozen=True)
class Table:
    """One table of the paper's."""

    name: str
    title: str
    rows: tuple[Row, ...]
    full: tuple[str, ...]  # the paper's columns, as settings
    small: tuple[str, ...]  # ours at the scale `small`, one for one; those the paper has besides are left out
    metrics: tuple[str, ...] = ("clean", "pgd", "aa")
    about: str = ""
    movable: bool = False  # may be asked for in another setting (--on)

    def places(self, scale: str, on: Setting | None = None) -> list[Place]:
        """Return the columns at a scale."""
        paper = [Setting.parse(text) for text in self.full]
        if on is not None and self.movable:
            return [Place(paper[0], on)]
        if scale == "full":
            return [Place(one, one) for one in paper]
        small = [Setting.parse(text) for text in self.small]
        if scale == "smoke":
            small = [one._replace(data="digits", model=one.model.replace("small-cnn", "tiny-cnn")) for one in small]
        return [Place(*pair) for pair in zip(paper, small, strict=False)]


DONORS = {"wrn-32-10": "small-cnn", "tiny-cnn": "fc1", "fc1": "tiny-cnn"}  # the architecture an omega is taken from


def donor(setting: Setting) -> Setting:
    """Return where the weight network comes from that a `pretrained` row uses."""
    return setting._replace(model=DONORS.get(setting.model, "tiny-cnn"))


def recipe(name: str, **values: Any) -> Recipe:
    """Return the recipe of a method with some settings of its own, `scheme__lr` standing for scheme.lr.

    >>> recipe("bilaw", scheme__hidden=[64, 64])(Config()).scheme.hidden
    (64, 64)
    """

    def make(base: Config) -> Config:
        return override(method(name, base), {key.replace("__", "."): value for key, value in values.items()})

    return make


def _pretrained(base: Config) -> Config:
    # The folder stands in for that of the donor's run, which the plan knows.
    return override(method("trades", base), {"scheme.name": "pretrained", "scheme.network": "donor"})


OFFICIAL = "{}, official settings"
PLAIN = Row("plain", "plain", recipe("plain"))
AT = Row("at", "AT", recipe("at"))
TRADES = Row("trades", "TRADES", recipe("trades"))
NONPARAMETRIC = Row("non-parametric", "non-parametric", recipe("non-parametric"))
BILAW = Row("bilaw", "BiLAW", recipe("bilaw"))
BILAW_TRADES = Row("bilaw-trades", "BiLAW-TRADES", recipe("bilaw-trades"))
HEURISTICS = tuple(Row(name, name.upper(), recipe(name)) for name in ("gairat", "wmmr", "mail"))
OFFICIALS = tuple(
    Row(f"{row.name}-official", OFFICIAL.format(row.title), recipe(row.name, scheme__preset="official"))
    for row in HEURISTICS
)
WRN = ("cifar-10/wrn-32-10/linf/0.031",)
LAPTOP = ("fashion-mnist/tiny-cnn/linf/0.1",)
ABLATION = "BiLAW-TRADES throughout, as in the paper. "


def _lambda(row: Row, value: int) -> Row:
    title = f"{row.title}, 1/lambda = {value}"
    return Row(f"{row.name}-{value}", title, recipe(row.name, loss__inv_lambda=value))


def _grey(name: str) -> tuple[str, ...]:
    return tuple(f"{name}/{model}/{ball}" for model in ("tiny-cnn", "fc1") for ball in ("linf/0.1", "l2/0.3"))


_CIFAR = tuple(f"cifar-10/{model}/linf/{eps}" for model in ("small-cnn", "wrn-32-10") for eps in ("0.0078", "0.031"))
_GREY_ROWS = (PLAIN, AT, *HEURISTICS, BILAW, TRADES, NONPARAMETRIC, BILAW_TRADES, *OFFICIALS)
_CHEAPER: dict[str, dict[str, Any]] = {
    "pgd/pgd": {},
    "pgd-80/pgd": {"attack__fraction": 0.8},
    "pgd/f-fgsm": {"meta__attack": "f-fgsm"},
    "f-fgsm/pgd": {"attack__name": "f-fgsm", "meta__attack": "pgd"},
    "f-fgsm/f-fgsm": {"attack__name": "f-fgsm"},
}

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "cifar10",
            "CIFAR-10: BiLAW and what it is compared with",
            (*HEURISTICS, AT, TRADES, NONPARAMETRIC, BILAW, BILAW_TRADES, *OFFICIALS),
            _CIFAR,
            _CIFAR[:2],
        ),
        Table(
            "cifar100",
            "CIFAR-100: schemes on TRADES",
            (
                _lambda(TRADES, 1),
                _lambda(TRADES, 6),
                BILAW_TRADES,
                Row("gair-trades", "GAIR-TRADES", recipe("gair-trades")),
                Row("mail-trades", "MAIL-TRADES", recipe("mail-trades")),
                Row(
                    "mail-trades-official",
                    OFFICIAL.format("MAIL-TRADES"),
                    recipe("mail-trades", scheme__preset="official"),
                ),
            ),
            ("cifar-100/wrn-32-10/linf/0.031",),
            ("cifar-100/small-cnn/linf/0.031",),
            movable=True,
        ),
        Table(
            "weight-aware",
            "Adversaries that know the weights",
            (
                Row("none", "none: plain PGD", BILAW_TRADES.recipe),
                Row("partial", "partial: another run's weights", BILAW_TRADES.recipe, adversary="other"),
                Row("full", "full: the run's own weights", BILAW_TRADES.recipe, adversary="own"),
            ),
            ("cifar-10/small-cnn/linf/0.031",),
            LAPTOP,
            ("pgd",),
            "One BiLAW-TRADES classifier a seed, attacked three ways: the higher, the weaker the adversary. ",
            movable=True,
        ),
        Table(
            "capacity",
            "Capacity of the weight network",
            (
                Row("64", "64", recipe("bilaw-trades", scheme__hidden=[64])),
                Row("64-64", "64-64", recipe("bilaw-trades", scheme__hidden=[64, 64])),
                Row("128", "128", recipe("bilaw-trades", scheme__hidden=[128])),
                Row("256", "256", recipe("bilaw-trades", scheme__hidden=[256])),
                Row("pretrained-128", "pretrained (128)", _pretrained, donor=BILAW_TRADES.recipe),
            ),
            WRN,
            LAPTOP,
            ("clean", "pgd"),
            ABLATION,
            movable=True,
        ),
        Table(
            "input",
            "Input of the weight network",
            tuple(
                Row(name, name.replace("-", " "), recipe("bilaw-trades", scheme__features=name))
                for name in ("multiclass-margin", "margin", "adversarial-loss", "loss-difference")
            ),
            WRN,
            LAPTOP,
            ("clean", "pgd"),
            ABLATION,
            movable=True,
        ),
        Table(
            "attack-cost",
            "Cheaper attacks: training step / reweighting step",
            tuple(Row(name, name, recipe("bilaw-trades", **values)) for name, values in _CHEAPER.items()),
            WRN,
            LAPTOP,
            ("clean", "pgd", "speedup"),
            ABLATION + "Speed-up: steps of all rows timed in turns, in one process with nothing else of ours running. ",
            movable=True,
        ),
        Table(
            "trades",
            "TRADES' factor 1/lambda",
            tuple(_lambda(row, value) for row in (BILAW_TRADES, TRADES) for value in (1, 5, 6, 10)),
            WRN,
            LAPTOP,
            movable=True,
        ),
        Table("mnist", "MNIST", _GREY_ROWS, _grey("mnist"), _grey("mnist")),
        Table("fashion-mnist", "Fashion-MNIST", _GREY_ROWS, _grey("fashion-mnist"), _grey("fashion-mnist")),
        Table(
            "figures",
            "The runs that the figures are of",
            (PLAIN, AT, HEURISTICS[0], HEURISTICS[2], BILAW),
            _CIFAR[:2],
            ("fashion-mnist/tiny-cnn/linf/0.05", "fashion-mnist/tiny-cnn/linf/0.1"),
            ("clean", "pgd"),
            "The paper's figures show training at several radii, and the weights of BiLAW, MAIL and GAIRAT. ",
        ),
    )
}
