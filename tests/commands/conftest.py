"""A server of the embedded classifier, and models of every head, for tests of commands."""

import pytest

from tests.support.heads import write_heads
from tests.support.served import Served


@pytest.fixture(scope="module")
def classifier():
    with Served("embedded") as found:
        yield found


@pytest.fixture(scope="module", params=["embedded", "embedded-english"])
def served(request):
    with Served(request.param) as found:
        yield found


@pytest.fixture(scope="session")
def heads(checkpoint, tmp_path_factory):
    """Folders of a small model and its tokenizer, by name of a head; tests only read them."""
    return write_heads(checkpoint, tmp_path_factory.mktemp("heads"))
