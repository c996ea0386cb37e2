"""The layers stay independent: none can borrow another's formulas."""

import ast
import pkgutil
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lrp_axioms

ROOT = Path(__file__).resolve().parents[2]

FORBIDDEN = {
    "axioms.graph": ("sympy", "numpy", "torch", "numeric"),
    "axioms.kinds": ("sympy", "numpy", "torch", "numeric"),
    "axioms.composites": ("sympy", "numpy", "torch", "numeric"),
    "axioms.rewrites.canonizers": ("sympy", "numpy", "torch", "numeric"),
    "axioms.rewrites.rewrites": ("sympy", "numpy", "torch", "numeric"),
    "axioms.rules.propagate": ("numpy", "torch", "numeric"),
    "axioms.evidence.prove": ("torch", "numeric"),
    "numeric.reference.rules": ("torch", "sympy", "axioms.rules", "numeric.engine"),
}


def imported_with(module: str, suspects: tuple[str, ...]) -> set[str]:
    """Returns the ``suspects`` that a fresh interpreter has loaded after ``import module``."""
    names = "{x.removeprefix('lrp_axioms.') for x in sys.modules}"
    code = f"import sys, {module}; print(*(set({suspects!r}) & {names}))"
    fresh = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(fresh.stdout.split())


@pytest.mark.parametrize("module", FORBIDDEN)
def test_importing_a_layer_leaves_the_others_alone(module):
    assert imported_with(module, FORBIDDEN[module]) == set()


@pytest.mark.parametrize(
    ("module", "suspects", "found"),
    [
        ("axioms.rules.linear, axioms.graph", ("sympy", "numpy", "torch", "numeric"), {"sympy"}),
        # torch itself imports sympy
        ("numeric.engine.rules", ("torch", "axioms.rules", "numeric.reference"), {"torch"}),
    ],
)
def test_a_layer_imports_its_library_and_the_check_sees_it(module, suspects, found):
    assert imported_with(module, suspects) == found


def test_the_check_fails_on_a_module_that_does_not_exist():
    with pytest.raises(subprocess.CalledProcessError):
        imported_with("axioms.no_such_module", ("sympy",))


FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for layer in ("axioms", "numeric", "benchmarks")
    for path in sorted((ROOT / layer).rglob("*.py"))
    if not path.name.startswith(("test_", "conftest"))
}


@cache
def imported_by(code: str) -> set[str]:
    """Modules of the project that a file imports, also within a function or for types alone."""
    found = set()
    for statement in ast.walk(ast.parse(code)):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        if isinstance(statement, ast.ImportFrom):
            found |= {statement.module, *(f"{statement.module}.{a.name}" for a in statement.names)}
    found = {name.removeprefix("lrp_axioms.") for name in found}
    return {name for name in found if name in FILES and "." in name}


def in_order(files, *, whole=()):
    """Sorts modules, each after its imports; CycleError if there is no such order.

    Packages that are ``whole`` count as one module.
    """
    part_of = lambda name: next((p for p in whole if name == p or name.startswith(f"{p}.")), name)
    graph: dict[str, set[str]] = {}
    for name, code in files.items():
        imported = set(map(part_of, imported_by(code)))
        graph.setdefault(part_of(name), set()).update(imported - {part_of(name)})
    return list(TopologicalSorter(graph).static_order())


ROOMS = ("sources", "running", "experiments", "commands", "app", "cli", "research")
"""Rooms of benchmarks; each imports only from rooms before it."""


@pytest.fixture
def files():
    return {name: path.read_text(encoding="utf-8") for name, path in FILES.items()}


BACK = {
    "when it is imported": "from lrp_axioms.benchmarks.experiments import reproduce",
    "in a function": "def later():\n    from lrp_axioms.benchmarks.experiments import reproduce",
    "for types": "if TYPE_CHECKING:\n    from lrp_axioms.benchmarks.experiments import reproduce",
}


@pytest.mark.parametrize("way", BACK)
def test_no_module_imports_itself_by_way_of_others(files, way):
    in_order(files)
    in_order(files, whole=["benchmarks.experiments.table1"])  # nor a package
    files["benchmarks.experiments.result"] += f"\n{BACK[way]}"
    with pytest.raises(CycleError):
        in_order(files)


def rooms_imported_from_below(files):
    """Yields pairs of rooms of benchmarks whose first imports the second from above."""
    place = {f"benchmarks.{room}": n for n, room in enumerate(ROOMS)}
    for name, code in files.items():
        room = ".".join(name.split(".")[:2])
        others = {".".join(each.split(".")[:2]) for each in imported_by(code)}
        yield from ((room, o) for o in others if place.get(o, -1) > place.get(room, len(ROOMS)))


WRONG = {
    "sources": "from lrp_axioms.benchmarks.experiments import rows",
    "running": "def later():\n    from lrp_axioms.benchmarks.experiments import text",
    "experiments": "from lrp_axioms.benchmarks.research.speed import ratios",
    "commands": "import lrp_axioms.benchmarks.research.speed.machine",
}


@pytest.mark.parametrize("room", WRONG)
def test_a_room_of_benchmarks_never_imports_from_one_above_it(files, room):
    assert set(rooms_imported_from_below(files)) == set()
    in_order(files, whole=[f"benchmarks.{room}" for room in ROOMS])
    files[f"benchmarks.{room}"] += f"\n{WRONG[room]}"
    ((one, other),) = set(rooms_imported_from_below(files))
    assert one == f"benchmarks.{room}"
    assert other in WRONG[room].replace(" import ", ".").replace("lrp_axioms.", "")


def test_what_type_checkers_read_of_the_package_is_what_is_imported():
    body = ast.parse(Path(lrp_axioms.__file__).read_text(encoding="utf-8")).body
    block, *_ = [x for x in body if isinstance(x, ast.If)]
    typed = {
        name.name: each.module.removeprefix("lrp_axioms.")
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for name in each.names
    }
    assert typed == lrp_axioms.HOME


OPTIONAL = {"numeric.tools.captum", "numeric.tools.inseq"}  # which import these libraries


def test_importing_everything_leaves_the_settings_of_matplotlib_alone():
    code = (
        "import importlib, matplotlib\n"
        "before = dict(matplotlib.rcParams)\n"
        f"for name in {sorted({*FILES} - OPTIONAL)!r}: importlib.import_module(name)\n"
        "assert dict(matplotlib.rcParams) == before"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


NAME = re.compile(r"(?<![\w./-])(?:lrp_axioms|numeric)(?:\.[a-zA-Z_]+)+")


def test_what_a_message_or_docstring_names_is_there_under_this_name():
    """An installed package has ``lrp_axioms`` alone."""
    strings = [
        node.value
        for name, path in FILES.items()
        if not name.startswith(("axioms.", "benchmarks.research"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    named = {name for text in strings for name in NAME.findall(text)}
    named = {name for name in named if not name.endswith((".html", ".parquet"))}
    assert len(named) > 20
    assert not [name for name in named if not name.startswith("lrp_axioms.")]
    for name in named - {f"lrp_axioms.{name}" for name in OPTIONAL}:
        pkgutil.resolve_name(name.removesuffix("."))
