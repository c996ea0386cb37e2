"""A tokenizer for the tests of ``numeric.tools``."""

import pytest

from tests.support.tools import tiny_tokenizer


@pytest.fixture
def tokenizer(tmp_path):
    return tiny_tokenizer(tmp_path)
