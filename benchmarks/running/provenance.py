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
    here = Path(__file__).parent
    git = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
