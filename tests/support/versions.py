"""Installs the least and the newest versions that the package allows, and tests it with each.

``make versions`` runs the tests of ``make test-fast`` in two environments that it makes and
removes.  They need about 15 GB of disk where torch comes with the libraries of a GPU.
"""

import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
SHOWN = ("torch", "transformers", "numpy", "sympy")
VERSIONS = f"from importlib.metadata import version; print(*map(version, {SHOWN}))"


def least(project: Mapping) -> list[str]:
    """The constraint that every requirement of the core, and of the paper, has its least version.

    Raises ValueError that names all requirements without one.
    """
    lines = [*project["dependencies"], *project["optional-dependencies"]["paper"]]
    if unbounded := [line for line in lines if line.count(">=") != 1 or "," in line]:
        raise ValueError(f"pyproject.toml: {', '.join(unbounded)}: write NAME>=VERSION")
    return [line.replace(">=", "==") for line in lines]


def tried(
    folder: Path, constraints: Sequence[str], tests: Sequence[str]
) -> tuple[list[str], str, bool]:
    """The versions of ``SHOWN`` in a new environment, the last line of its tests, whether all pass.

    Raises CalledProcessError for an environment that cannot be made; pip has said why.
    """
    (folder / "constraints.txt").write_text("\n".join(constraints), "utf-8")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    packages = ["--editable", ".[paper]", "--group", "test"]
    limits = ["--constraint", folder / "constraints.txt"]
    subprocess.run([*pip, *limits, *packages], cwd=ROOT, check=True)
    found = subprocess.run([python, "-c", VERSIONS], check=True, capture_output=True, text=True)
    run = [python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(run, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(done.stdout)
    last = (done.stdout.splitlines() or ["no test ran"])[-1]
    return found.stdout.split(), last, done.returncode == 0


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    table = Table("", *SHOWN, "tests", "minutes", box=None)
    failed = False
    for name, constraints in {"least": least(project), "newest": []}.items():
        start = time.monotonic()
        with TemporaryDirectory() as folder:
            try:
                versions, said, passed = tried(Path(folder), constraints, sys.argv[1:])
            except subprocess.CalledProcessError:
                versions, said, passed = ["-"] * len(SHOWN), "could not be installed", False
        failed |= not passed
        table.add_row(name, *versions, said, f"{(time.monotonic() - start) / 60:.0f}")
    Console().print(table)
    sys.exit(failed)


if __name__ == "__main__":
    main()
