"""A grid that has been worked off, shared by the modules here."""

import pytest
from reproduction_kit import ONLY, small_grid


@pytest.fixture(scope="session")
def worked(tmp_path_factory):
    """Return the folder of a grid of AT and BiLAW on FC1 that nobody disturbed, and its events."""
    out = tmp_path_factory.mktemp("worked") / "grid"
    grid, events = small_grid(out, ONLY)
    assert set(grid.run().values()) == {"done"}
    return out, events
