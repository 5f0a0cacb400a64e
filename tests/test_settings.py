"""Settings as text: whatever a configuration holds, a file gives it back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilaw.cli import main
from bilaw.commands.train import effective
from bilaw.config import LOGGERS, META_OPTIMIZERS, OVERFITTING, Config
from bilaw.errors import nearest
from bilaw.settings import did_you_mean, from_toml, override, parse, parse_file, read, settings, to_toml, values_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda text: text != "auto"
)
POSITIVE = st.floats(1e-300, 1e300)
SHARE = st.floats(0, 1, exclude_min=True)
NAMES: dict[str, list[str]] = {
    "loss.name": ["adversarial-ce", "trades", "mart"],
    "attack.name": ["pgd", "f-fgsm", "fgsm"],
    "attack.norm": ["linf", "l2"],
    "attack.start": ["uniform", "gaussian", "zero"],
    "scheme.name": ["uniform", "gairat", "wmmr", "mail", "non-parametric", "learned"],
    "scheme.preset": ["paper"],
    "scheme.features": ["multiclass-margin", "margin", "adversarial-loss", "loss-difference"],
    "scheme.margin_from": ["clean", "adversarial"],
    "scheme.optimizer": [*META_OPTIMIZERS],
    "meta.loss": ["plain", "trades"],
    "meta.attack": ["pgd", "fgsm"],
    "meta.at": ["theta", "theta~"],
    "meta.derivative": ["exact", "central"],
    "optim.schedule": ["piecewise", "cosine", "one-cycle"],
    "compute.precision": ["fp32", "bf16"],
    "guard.overfitting": [*OVERFITTING],
}
SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "attack.eps": st.floats(1e-300, 1),  # more is no ball for linf
    "attack.fraction": st.just(1.0),  # anything else excludes most schemes
    "scheme.network": st.none(),
    "scheme.burn_in": SHARE,
    "optim.momentum": st.floats(0, 1, exclude_max=True),
    "optim.ema": st.floats(0.001, 0.999),
    "optim.warmup": st.floats(0.001, 1),
    "compute.threads": st.integers(1, 1024),
    "guard.drop": SHARE,
    "guard.min_ess": SHARE,
    "seed": st.integers(0, 2**63 - 1),
    "scheme.hidden": st.lists(st.integers(1, 4096), max_size=4).map(tuple),
    "log.to": st.lists(st.sampled_from([*LOGGERS]), max_size=3).map(tuple),
}
KINDS: dict[type, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: st.integers(2, 10**6),
    float: POSITIVE,
    bool: st.booleans(),
}


VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{name: KINDS[setting.kind] for name, setting in settings().items()},
    **{name: st.sampled_from(names) for name, names in NAMES.items()},
    **SPECIAL,
}


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Any configuration of a scheme that needs no file."""
    chosen = draw(st.sets(st.sampled_from([*settings()])))
    values: dict[str, dict[str, Any]] = {}
    for name in chosen:
        value = draw(VALUES[name])
        if settings()[name].auto and draw(st.booleans()):
            value = None
        group, _, key = name.rpartition(".")
        values.setdefault(group, {})[key] = value
    top = values.pop("", {})
    base = Config()
    return replace(base, **top, **{group: replace(getattr(base, group), **new) for group, new in values.items()})


@given(configs())
def test_a_file_gives_back_any_configuration(config: Config) -> None:
    text = to_toml(config)
    assert from_toml(text) == config
    assert to_toml(from_toml(text)) == text


@given(configs())
def test_flags_give_back_any_configuration_whose_texts_they_can_hold(config: Config) -> None:
    flags = {}
    for name, value in values_of(config).items():
        setting = settings()[name]
        if setting.many:
            flags[name] = ",".join(map(str, value)) or "none"
        elif value is None or isinstance(value, bool):
            flags[name] = str(value).lower().replace("none", "auto")
        else:
            flags[name] = repr(value) if isinstance(value, float) else str(value)
    assert override(Config(), flags) == config


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_fractions_are_divided_once(above: int, below: int) -> None:
    assert read(settings()["attack.eps"], f"{above}/{below}") == above / below


@pytest.mark.parametrize(
    ("name", "given", "want"),
    [
        ("attack.eps", "8/255", 8 / 255),
        ("attack.eps", 1, 1.0),
        ("attack.eps", "1e-2", 0.01),
        ("attack.step_size", "auto", None),
        ("scheme.hidden", "64, 32", (64, 32)),
        ("scheme.hidden", [64], (64,)),
        ("scheme.hidden", "none", ()),
        ("log.to", "", ()),
        ("log.to", [], ()),
        ("data.augment", "True", True),
        ("data.augment", False, False),
        ("seed", "7", 7),
    ],
)
def test_values_are_read(name: str, given: Any, want: Any) -> None:
    found = read(settings()[name], given)
    assert found == want
    assert type(found) is type(want)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("attack.eps", "1/2/3"),
        ("attack.eps", "8/0"),
        ("attack.eps", "nan"),
        ("attack.eps", True),
        ("attack.eps", "auto"),
        ("attack.eps", [0.1]),
        ("seed", 1.0),
        ("seed", True),
        ("seed", "1/1"),
        ("data.augment", 1),
        ("data.augment", "yes"),
        ("scheme.hidden", 64),
        ("scheme.hidden", [64, 32.5]),
        ("scheme.hidden", "64,,32"),
        ("model.name", 3),
    ],
)
def test_values_of_another_kind_are_refused_by_name(name: str, given: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name} = .* is not accepted; it takes "):
        read(settings()[name], given)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("eps", "attack.eps"),
        ("atack.eps", "attack.eps"),
        ("attack.epz", "attack.eps"),
        ("epochs", "optim.epochs"),
        ("optim.epoch", "optim.epochs"),
        ("patience", "select.patience"),
        ("momentun", "optim.momentum"),
    ],
)
def test_the_nearest_name_is_named(name: str, hint: str) -> None:
    assert did_you_mean(name, settings()) == f" (did you mean {hint}?)"


def test_a_name_like_no_other_gets_no_hint() -> None:
    assert did_you_mean("xyzzy", settings()) == "" == nearest("xyzzy", settings())


def test_flags_go_before_the_method_the_method_before_the_file_the_file_before_defaults(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('seed = 3\n[loss]\nname = "mart"\n[attack]\neps = 0.2\nsteps = 3\n[scheme]\nname = "mail"\n')
    config, in_file = effective(file, "trades", {"attack.eps": "0.3"})
    assert (config.seed, config.attack.steps, config.attack.eps) == (3, 3, 0.3)
    assert (config.loss.name, config.scheme.name, config.optim) == ("trades", "uniform", Config().optim)
    assert in_file == ["seed", "attack.steps"]
    assert effective(file, "trades", {"loss.name": "mart"})[0].loss.name == "mart"


def test_windows_files_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes('\ufeffseed = 3\r\n[attack]\r\neps = "8/255"  # é\r\n'.encode())
    assert parse_file(file) == {"seed": 3, "attack.eps": "8/255"}


def test_tables_may_be_nested_and_names_dotted_as_toml_allows() -> None:
    assert parse("attack.eps = 0.2\n[optim]\nlr = 1") == {"attack.eps": 0.2, "optim.lr": 1}


def test_absurd_files_end_in_a_message(tmp_path: Path) -> None:
    for text in ("x = " + 10**5 * "[", "seed = " + 10**4 * "9", "[data]\n[data]"):
        (tmp_path / "absurd.toml").write_text(text)
        with pytest.raises(ValueError, match=r"absurd\.toml: "):
            parse_file(tmp_path / "absurd.toml")


def test_print_config_reads_back_as_the_settings_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--method", "bilaw", "--attack.eps", "8/255", "--scheme.hidden", "", "--print-config"]) == 0
    out, err = capsys.readouterr()
    want = override(Config(), {"scheme.name": "learned", "attack.eps": 8 / 255, "scheme.hidden": []})
    assert from_toml(out) == want
    assert err == ""


def test_what_a_file_sets_in_vain_is_noted_and_what_a_flag_sets_in_vain_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[scheme]\nlr = 0.1\n")
    assert main(["train", "--config", str(file), "--print-config"]) == 0
    assert "note: scheme.lr in " in capsys.readouterr().err
    assert main(["train", "--config", str(file), "--scheme.lr", "0.2", "--print-config"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "bilaw: --scheme.lr 0.2 has no effect here: it takes scheme.name = learned\n")
    assert main(["train", "--scheme.burn_in", "auto", "--print-config"]) == 0
