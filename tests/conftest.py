"""Fixtures that several tests share; tests leave the models as they were."""

import pytest

from tests import cases


@pytest.fixture(scope="session")
def embedded():
    """The embedded classifier in float64, by attention implementation."""
    return {name: cases.load_embedded(name) for name in ("sdpa", "eager")}


@pytest.fixture
def tiny():
    return cases.tiny_bert()


@pytest.fixture
def batch():
    return cases.tiny_batch()
