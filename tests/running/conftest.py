"""A folder that several tests spoil."""

import pytest

from benchmarks.running import manifest
from tests.support.squares import measure


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A complete run, with a part for each block."""
    monkeypatch.setattr(manifest, "SIZE", 1)
    measure(tmp_path / "run")
    return tmp_path / "run"
