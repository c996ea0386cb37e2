"""Where a measurement was made: processor, threads, versions, commit."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch

from lrp_axioms.benchmarks.running.provenance import provenance

KEPT = "baseline.json", "RESULTS.md"
"""Files that measurements write: a change in them is no change of the code."""
SAME = ("processor", "cores", "threads", "gpu")
"""Facts that two machines must share before their ratios are compared."""


@dataclass(frozen=True)
class Where:
    """Machine, versions, commit and date of a measurement."""

    processor: str
    cores: int | None
    threads: int
    gpu: str | None
    torch: str
    transformers: str
    python: str
    commit: str | None
    date: str


def here() -> Where:
    """Returns where this process measures."""
    about = provenance()
    return Where(
        processor=_processor(),
        cores=os.cpu_count(),
        threads=about["threads"],
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        **{key: about[key] for key in ("torch", "transformers", "python")},
        commit=_commit(),
        date=about["date"][:10],
    )


def _processor():
    """Returns the processor's product name, or else its architecture."""
    try:
        names = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _commit():
    """Returns the commit, marked if measured files differ from it; None outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    others = ["--", ":/", *(f":(exclude,top)benchmarks/{name}" for name in KEPT)]
    try:
        commit = _said([*git, "rev-parse", "--short=12", "HEAD"])
        changed = _said([*git, "status", "--porcelain", "--untracked-files=no", *others])
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit} + changes" if changed else commit


def _said(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def same(a: Where, b: Where) -> bool:
    """Whether ratios of the two may be expected to be equal."""
    return all(getattr(a, key) == getattr(b, key) for key in SAME)


def name(where: Where) -> str:
    """Describes the machine alone, in words."""
    gpu = f", {where.gpu}" if where.gpu else ""
    threads = f"{where.threads} thread{'s' * (where.threads > 1)}"
    return f"{where.processor}{gpu}, {where.cores} cores, {threads}"


def described(where: Where) -> str:
    """Describes machine, versions, commit and date, in words."""
    return (
        f"{name(where)}; torch {where.torch}, transformers {where.transformers}, "
        f"Python {where.python}; commit {where.commit or 'unknown'}, {where.date}."
    )
