"""A server of the embedded classifier, and models of every head, for tests of commands."""

import pytest

from tests.support.heads import write_heads
from tests.support.served import Served


@pytest.fixture(scope="module")
def classifier():
    found = Served("embedded")
    yield found
    found.end()


@pytest.fixture(scope="session")
def heads(checkpoint, tmp_path_factory):
    """Folders of a small model and its tokenizer, by name of a head; tests only read them."""
    return write_heads(checkpoint, tmp_path_factory.mktemp("heads"))
