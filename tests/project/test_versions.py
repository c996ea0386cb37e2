"""``make versions`` installs versions that ``pyproject.toml`` allows."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.versions import ROOT, least

PROJECT = {
    "dependencies": ["numpy>=2", "torch>=2.9"],
    "optional-dependencies": {"paper": ["pytest>=9"], "cluster": ["ray>=2.60"]},
}


def test_the_least_versions_are_those_of_the_core_and_of_the_paper():
    assert least(PROJECT) == ["numpy==2", "torch==2.9", "pytest==9"]


def test_requirements_without_a_least_version_are_named_all_at_once():
    with pytest.raises(ValueError, match="numpy, torch>2, torch>=2,<3: write NAME>=VERSION"):
        least(PROJECT | {"dependencies": ["rich>=13", "numpy", "torch>2", "torch>=2,<3"]})


def pins(path, end):
    found = re.findall(rf"^([\w.-]+)==(\S+){end}", path.read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def test_every_package_of_the_project_but_torch_has_its_pin_and_its_hashes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups, lines = project["dependency-groups"], []
    for group in ("test", "notebooks", "docs", "dev"):
        lines += [line for line in groups[group] if isinstance(line, str)]
    lines += project["project"]["dependencies"]
    lines += project["project"]["optional-dependencies"]["paper"]
    constraints = pins(ROOT / "constraints.txt", "$")
    locked = pins(ROOT / "requirements.lock", r"(?: ;.*)? \\\n    --hash=sha256:[0-9a-f]{64}")
    named = re.findall(r"^[a-zA-Z]", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    assert len(named) == len(locked)
    for requirement in map(Requirement, lines):
        name = canonicalize_name(requirement.name)
        assert requirement.specifier.contains(constraints[name]), name
        assert name in locked or name == "torch"
    assert not {name for name in locked if re.match("torch$|triton|nvidia|cuda", name)}
    assert {x: y for x, y in locked.items() if constraints.get(x, y) != y} == {}
