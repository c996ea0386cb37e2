"""What ``make versions`` installs is what ``pyproject.toml`` allows."""

import pytest

from tests.support.versions import least

PROJECT = {
    "dependencies": ["numpy>=2", "torch>=2.9"],
    "optional-dependencies": {"paper": ["pytest>=9"], "cluster": ["ray>=2.60"]},
}


def test_the_least_versions_are_those_of_the_core_and_of_the_paper():
    assert least(PROJECT) == ["numpy==2", "torch==2.9", "pytest==9"]


def test_requirements_without_a_least_version_are_named_all_at_once():
    with pytest.raises(ValueError, match="numpy, torch>2, torch>=2,<3: write NAME>=VERSION"):
        least(PROJECT | {"dependencies": ["rich>=13", "numpy", "torch>2", "torch>=2,<3"]})
