import os
from pathlib import Path

import pytest
import report_kit

from bilaw.report.page import page


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Two runs, evaluated; nobody may change them."""
    return report_kit.make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def written(pair, tmp_path_factory):
    """A page of both; BILAW_REPORT names another to be driven in its place."""
    if given := os.environ.get("BILAW_REPORT"):
        return Path(given)
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page(pair), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def browser():
    if not (report_kit.CHROMIUM and report_kit.DRIVER):
        pytest.skip("there is no chromium with its chromedriver here")
    made = report_kit.Browser()
    yield made
    made.quit()
