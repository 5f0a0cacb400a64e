"""The tables: what they hold of the paper, and the settings of their rows, from METHOD."""

import itertools

import pytest

from bilaw.config import Config
from bilaw.effects import without_effect
from bilaw.errors import Refused
from bilaw.recipes.paper import printed, tables
from bilaw.recipes.protocol import SCALES, Setting, protocol
from bilaw.recipes.tables import TABLES
from bilaw.reproduction.plan import Cell, cells, choose, partner, tasks
from bilaw.reproduction.tasks import Evaluate, Time, Train, key
from bilaw.settings import settings, values_of

# Read off the paper's tables by eye, one or two a table.
READ = [
    ("cifar10", "bilaw-trades", "cifar-10/wrn-32-10/linf/0.031", (87.1, 57.4, 53.6)),
    ("cifar10", "gairat", "cifar-10/small-cnn/linf/0.031", (79.0, 55.6, 40.7)),
    ("cifar100", "mail-trades", "cifar-100/wrn-32-10/linf/0.031", (60.1, 30.3, 24.8)),
    ("mnist", "wmmr", "mnist/fc1/l2/0.3", (98.2, 97.2, 89.8)),
    ("fashion-mnist", "bilaw", "fashion-mnist/tiny-cnn/l2/0.3", (92.4, 81.3, 76.6)),
    ("trades", "trades-5", "cifar-10/wrn-32-10/linf/0.031", (86.9, 57.6, 52.0)),
]


@pytest.mark.parametrize(("table", "row", "column", "figures"), READ)
def test_the_papers_figures_are_the_papers(table, row, column, figures):
    found = [printed(table, row, column, metric) for metric in ("clean", "pgd", "aa")]
    assert tuple(one.value for one in found) == figures


@pytest.mark.parametrize("name", tables())
def test_what_the_paper_prints_has_a_row_and_a_column_of_ours(name):
    held, table = tables()[name], TABLES[name]
    assert set(held["rows"]) <= {row.name for row in table.rows}
    assert [str(place.paper) for place in table.places("full")] == held["columns"]
    assert tuple(held["metrics"]) == table.metrics
    assert all(len(row) == len(held["columns"]) for row in held["rows"].values())
    assert all(len(cell) == len(held["metrics"]) for row in held["rows"].values() for cell in row)


@pytest.mark.parametrize(
    ("place", "suspect"),
    [
        (("mnist", "at", "mnist/fc1/l2/0.3", "clean"), True),
        (("mnist", "at", "mnist/fc1/l2/0.3", "pgd"), False),
        (("fashion-mnist", "plain", "fashion-mnist/fc1/linf/0.1", "clean"), True),
        (("mnist", "plain", "mnist/tiny-cnn/l2/0.3", "aa"), True),
        (("fashion-mnist", "plain", "fashion-mnist/fc1/l2/0.3", "aa"), True),
        (("mnist", "plain", "mnist/tiny-cnn/linf/0.1", "aa"), False),
        (("cifar10", "at", "cifar-10/wrn-32-10/linf/0.0078", "clean"), True),
        (("cifar10", "at", "cifar-10/small-cnn/linf/0.0078", "clean"), False),
        (("trades", "trades-1", "cifar-10/wrn-32-10/linf/0.031", "pgd"), True),
        (("trades", "bilaw-trades-6", "cifar-10/wrn-32-10/linf/0.031", "pgd"), False),
    ],
)
def test_the_suspect_figures_are_marked_and_no_others(place, suspect):
    assert bool(printed(*place).suspect) is suspect


def test_what_the_paper_does_not_print_is_none():
    assert printed("mnist", "trades", "mnist/fc1/l2/0.3", "clean") is None
    assert printed("capacity", "64", "cifar-10/wrn-32-10/linf/0.031", "aa") is None


def all_cells(scale):
    return [cell for table in TABLES.values() for cell in cells(table, scale)]


def test_full_is_the_papers_protocol():
    for cell in all_cells("full"):
        optim = cell.train(0).config.optim
        shown = (optim.epochs, optim.batch, optim.lr, optim.momentum, optim.weight_decay, optim.schedule)
        assert shown == (100, 128, 0.1, 0.9, 2e-4, "piecewise")
        assert cell.train(0).config.attack.steps == 10
        assert cell.train(0).config.data.train is None
        assert str(cell.place.ours) == str(cell.place.paper)


@pytest.mark.parametrize("scale", SCALES)
def test_rows_of_a_column_share_all_but_what_they_are_about(scale):
    about = ("loss.", "scheme.", "attack.name", "attack.fraction", "meta.attack")
    for cell in all_cells(scale):
        held, base = values_of(cell.train(3).config), values_of(cell.protocol.base)
        apart = [name for name in held if held[name] != base[name] and name != "seed"]
        assert all(name.startswith(about) for name in apart), cell.label
        assert without_effect(cell.train(0).config, apart) == {}, cell.label


@pytest.mark.parametrize("scale", SCALES)
def test_no_two_rows_of_a_column_are_the_same_run(scale):
    for _, column in itertools.groupby(all_cells(scale), key=lambda cell: (cell.table.name, cell.place)):
        found = [cell for cell in column if cell.table.name != "weight-aware"]
        assert len({cell.train(0).folder for cell in found}) == len(found)


def test_tables_share_their_runs():
    """The ablations' middle rows, the paper's own setting, are BiLAW-TRADES of the big table."""

    def of(table, row, scale):
        return next(c for c in cells(TABLES[table], scale) if c.row.name == row and c.place.ours.eps in (0.1, 0.031))

    same = [
        ("capacity", "128"),
        ("input", "multiclass-margin"),
        ("attack-cost", "pgd/pgd"),
        ("trades", "bilaw-trades-6"),
    ]
    assert len({of(table, row, "small").train(1).folder for table, row in same}) == 1
    other = next(c for c in cells(TABLES["fashion-mnist"], "small") if c.row.name == "bilaw-trades")
    assert other.train(1).folder == of(*same[0], "small").train(1).folder


def named(table, row, scale="small"):
    return next(cell for cell in cells(TABLES[table], scale) if cell.row.name == row)


def test_the_rows_settings():
    read = {
        ("capacity", "64-64"): {"scheme.hidden": (64, 64), "scheme.name": "learned", "loss.name": "trades"},
        ("input", "loss-difference"): {"scheme.features": "loss-difference"},
        ("attack-cost", "pgd-80/pgd"): {"attack.fraction": 0.8, "attack.name": "pgd", "meta.attack": None},
        ("attack-cost", "f-fgsm/pgd"): {"attack.name": "f-fgsm", "meta.attack": "pgd"},
        ("attack-cost", "f-fgsm/f-fgsm"): {"attack.name": "f-fgsm", "meta.attack": None},
        ("trades", "trades-10"): {"loss.inv_lambda": 10.0, "scheme.name": "uniform"},
        ("mnist", "wmmr-official"): {"scheme.preset": "official", "scheme.name": "wmmr"},
        ("mnist", "mail"): {"scheme.preset": "paper"},
        ("cifar100", "gair-trades"): {"scheme.name": "gairat", "loss.name": "trades"},
    }
    for place, wanted in read.items():
        held = values_of(named(*place).train(0).config)
        assert {name: held[name] for name in wanted} == wanted


def test_a_pretrained_row_needs_a_run_on_another_architecture_with_its_seed():
    for scale, model in (("full", "small-cnn"), ("small", "fc1"), ("smoke", "fc1")):
        cell = named("capacity", "pretrained-128", scale)
        donor, train, *_ = cell.tasks(2)
        assert donor.config.model.name == model
        assert donor.config.seed == train.config.seed == 2
        assert donor.config.scheme.name == "learned"
        assert train.after == (donor.name,)
        assert train.config.scheme.network == donor.name


def test_partial_knowledge_is_of_another_seeds_network():
    assert all(partner(seed) != seed for seed in range(9))
    cell = named("weight-aware", "partial")
    task = cell.sources(2)["pgd"].task
    assert task.after == (cell.train(2).name, cell.train(1).name)
    assert cell.sources(2)["pgd"].attack == f"weight-aware-20:{cell.train(1).name}"
    assert named("weight-aware", "full").sources(2)["pgd"].attack == "weight-aware-20"
    assert named("weight-aware", "none").sources(2)["pgd"].task == task


def test_every_task_comes_after_what_it_needs_and_once():
    for scale in SCALES:
        found = tasks(all_cells(scale), 2)
        for task in found.values():
            assert all(need in found for need in task.after)
        assert sum(isinstance(task, Time) for task in found.values()) == 1
        trained = {task.folder for task in found.values() if isinstance(task, Train)}
        assert trained == {task.folder for task in found.values() if isinstance(task, Evaluate)} | {
            cell.train(seed).folder for cell in all_cells(scale) for seed in range(2)
        } | {task.needs for task in found.values() if isinstance(task, Train) and task.needs}


def test_a_folders_name_is_a_function_of_what_the_run_is():
    base = named("mnist", "at").train(0).config
    assert key(base) == key(Config(**{name: getattr(base, name) for name in base.__dataclass_fields__}))
    aside = ("compute.", "log.", "data.root")
    other = {str: "tiny", int: 7, float: 0.37, bool: True}
    from dataclasses import replace

    for setting in settings().values():
        group, _, name = setting.name.rpartition(".")
        if setting.name in ("scheme.network", "scheme.name", "loss.name") or setting.kind is str:
            continue
        value = (7,) if setting.many else other[setting.kind]
        changed = (
            replace(base, **{group: replace(getattr(base, group), **{name: value})}) if group else replace(base, seed=7)
        )
        assert (key(changed) == key(base)) is setting.name.startswith(aside), setting.name


@pytest.mark.parametrize(
    ("patterns", "count"),
    [
        (["tiny-cnn/linf/at"], 1),
        (["at"], 4),
        (["bilaw*"], 8),
        (["fc1/l2"], 12),
        (["l2/0.3/plain", "linf/plain"], 4),
        (["mnist/*/linf/0.1/mail"], 2),
        (["tiny-cnn/linf/at", "at"], 4),
    ],
)
def test_only_takes_words_of_a_label_in_their_order(patterns, count):
    assert len(choose(cells(TABLES["mnist"], "small"), patterns)) == count


def test_only_takes_rows_with_a_slash_and_the_papers_words():
    found = cells(TABLES["attack-cost"], "small")
    assert [cell.row.name for cell in choose(found, ["pgd/f-fgsm"])] == ["pgd/f-fgsm"]
    assert [cell.row.name for cell in choose(found, ["tiny-cnn/f-fgsm/pgd"])] == ["f-fgsm/pgd"]
    assert len(choose(found, ["wrn-32-10"])) == 5


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [("tiny-cn/at", "did you mean 'tiny-cnn'"), ("at/tiny-cnn", "words of a label"), ("x", "--list")],
)
def test_only_refuses_what_names_nothing(pattern, hint):
    with pytest.raises(Refused, match=hint):
        choose(cells(TABLES["mnist"], "small"), [pattern])


def test_a_movable_table_is_measured_where_it_is_asked_for():
    on = Setting.parse("mnist/fc1/l2/0.3")
    (place,) = TABLES["input"].places("small", on)
    assert place.ours == on
    assert str(place.paper) == "cifar-10/wrn-32-10/linf/0.031"
    assert len(TABLES["mnist"].places("small", on)) == 4


@pytest.mark.parametrize("text", ["mnist", "mnist/fc1/linf", "a/b/c/", "mnist/fc1/linf/x", "/fc1/linf/1"])
def test_a_setting_that_is_none_is_refused(text):
    with pytest.raises(Refused):
        Setting.parse(text, "--on")


def test_what_a_scale_does_is_said_in_numbers_that_are_its_own():
    for scale, setting in itertools.product(SCALES, ("mnist/tiny-cnn/linf/0.1", "cifar-10/small-cnn/linf/0.031")):
        if scale == "smoke":
            setting = "digits/tiny-cnn/linf/0.1"
        made = protocol(scale, Setting.parse(setting))
        assert f"{made.base.optim.epochs} epochs" in made.words
        if made.base.data.train:
            assert f"{made.base.data.train:,}" in made.words
        if scale != "smoke":
            assert f"{made.strong.samples:,}" in made.words
        if made.base.optim.lr != 0.1:
            assert f"lr {made.base.optim.lr:g}" in made.words


def test_cells_have_labels_of_their_own():
    for table in TABLES.values():
        labels = [Cell(*cell).label for cell in cells(table, "small")]
        assert len(set(labels)) == len(labels)
