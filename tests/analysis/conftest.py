import analysis_kit
import pytest


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Two runs, evaluated; nobody may change them."""
    home = tmp_path_factory.mktemp("runs")
    for folder, name in (("learned", "bilaw-trades"), ("even", "trades")):
        analysis_kit.train(home / folder, name)
        analysis_kit.judge(home / folder)
    return home


@pytest.fixture(scope="session")
def learned(trained):
    return analysis_kit.read(trained / "learned")


@pytest.fixture(scope="session")
def even(trained):
    return analysis_kit.read(trained / "even")
