"""Everything else that a number depends on: commit, versions, processor, threads, date."""

import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = ("numpy", "scikit-learn", "scipy", "sympy", "torch", "transformers")


def provenance() -> dict:
    """Returns commit, date, Python, machine, threads, and versions of packages."""
    return {
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        **{name: _version(name) for name in ("lrp-axioms", *PACKAGES)},
    }


@cache  # a look-up takes milliseconds
def _version(name):
    """Returns the version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@cache  # of the code that this process runs, whatever is checked out meanwhile
def _commit():
    """Returns this checkout's commit, marked if files differ from it; None outside a checkout."""
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    try:  # an installed package may lie in another project's checkout, which does not track it
        _output([*git, "ls-files", "--error-unmatch", here.name])
        return _output([*git, "describe", "--always", "--dirty", "--abbrev=40"])
    except (OSError, subprocess.CalledProcessError):
        return None


def _output(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()
