"""A folder that several tests spoil, and sizes of its parts."""

import pytest

from benchmarks.running import manifest
from tests.support.squares import measure


@pytest.fixture(params=[1, 2**30])
def size(request, monkeypatch):
    """Bytes of a part: every block has its own, or all share one."""
    monkeypatch.setattr(manifest, "SIZE", request.param)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A complete run, with a part for each block."""
    monkeypatch.setattr(manifest, "SIZE", 1)
    measure(tmp_path / "run")
    return tmp_path / "run"
