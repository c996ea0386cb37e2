"""Counts how much each theorem decides: a run that decides less than it once did is no proof.

``counts.json`` holds, for every run of a theorem's test, the number of identities that it decides,
of further identities whose sides are equal as written, of differences, of symbols of each name
(``symbols x``), of symbols that may have either sign, and of cases of signs.
``python -m axioms.evidence.counts FILE ...`` runs the theorems of the files, or all, and writes
their counts.
"""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterable
from functools import lru_cache
from math import prod
from pathlib import Path

import pytest

from lrp_axioms.axioms import schema
from lrp_axioms.axioms.decide.decisions import IDENTICAL, Decision
from lrp_axioms.axioms.decide.records import recording
from lrp_axioms.axioms.evidence.statements import THEOREMS

KEPT = Path(__file__).with_name("counts.json")
Counts = dict[str, dict[str, int]]  # run -> name -> number
COMMAND = "python -m axioms.evidence.counts"
EITHER_SIGN = ("", "real", "nonzero")
"""Assumptions that leave the sign of a symbol open."""


def counted(decisions: Iterable[Decision]) -> dict[str, int]:
    """Counts decisions by name: identities, identities ``as written``, differences, ..."""
    decisions = list(decisions)
    equal = [d for d in decisions if d.kind == IDENTICAL and d.verdict and d.symbols]
    unequal = [d for d in decisions if d.symbols and (d.kind == IDENTICAL) != d.verdict]
    assumed = {x: fact for d in equal + unequal for x, fact in d.assumptions.items()}
    found = {
        "identities": sum(not d.is_trivial for d in equal),
        "as written": sum(d.is_trivial for d in equal),
        "differences": len(unequal),
        "sign cases": len({d.signs for d in equal + unequal if d.signs}),
        "symbols of either sign": sum(fact in EITHER_SIGN for fact in assumed.values()),
        **{f"symbols {name}": n for name, n in Counter(map(_family, sorted(assumed))).items()},
    }
    return {name: n for name, n in found.items() if n}


def _family(symbol: str) -> str:
    """The name that symbols of one matrix, or of one function, begin with."""
    return re.split(r"[\d\[({ ]", symbol)[0]


def key(item: pytest.Item) -> str:
    """The key of a run of a theorem's test in ``counts.json``."""
    return f"{item.path.name}::{item.name}"


@lru_cache(1)
def _kept(path: Path, _changed: int) -> Counts:
    return schema.read(path, Counts, "counts of theorems")


def hold(item: pytest.Item, decisions: Iterable[Decision]) -> None:
    """Raises ValueError if a run of one of our own theorems decides less than its kept counts."""
    if item.path.parent != THEOREMS:
        return
    kept = _kept(KEPT, KEPT.stat().st_mtime_ns)
    if key(item) not in kept:
        raise ValueError(
            f"{key(item)} has no count in {KEPT.name}; `{COMMAND} {item.path.name}` writes it"
        )
    found = counted(decisions)
    less = [
        f"{name} {found.get(name, 0)}, where {n} are kept"
        for name, n in kept[key(item)].items()
        if found.get(name, 0) < n
    ]
    if less := less + _gone(item, kept):
        raise ValueError(f"less is decided than {KEPT.name} keeps: {'; '.join(less)}")


def _gone(item: pytest.Item, kept: Iterable[str]) -> list[str]:
    """Kept runs that this file no longer has, and kept files that no longer exist."""
    runs = Counter(name.partition("[")[0] for name in kept)
    here = f"{item.path.name}::"
    module = vars(sys.modules[item.function.__module__])  # type: ignore[attr-defined]
    lost = [name for name in runs if name.startswith(here) and name[len(here) :] not in module]
    lost += {
        f for f, _, _ in (name.partition("::") for name in runs) if not (THEOREMS / f).exists()
    }
    now = prod(len(mark.args[1]) for mark in item.iter_markers("parametrize"))
    name = key(item).partition("[")[0]
    fewer = [f"{name} runs {now} times, where {runs[name]} are kept"] if now < runs[name] else []
    return [f"{name} is gone" for name in lost] + fewer


def main(*names: str) -> None:
    """Runs all theorems, or the theorems of some files by name, and writes their counts."""
    paths = [THEOREMS / name for name in names] or [THEOREMS]
    kept = schema.read(KEPT, Counts, "counts of theorems") if names else {}
    found = {name: n for name, n in kept.items() if name.partition("::")[0] not in names}

    class Counting:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
            with recording() as record:
                result = yield
            if item.get_closest_marker("theorem"):
                found[key(item)] = counted(record.decisions)
            return result

    options = ["-q", "--noconftest", f"-c{os.devnull}", "--import-mode=importlib"]
    options += ["-pno:cacheprovider", *map(str, paths)]
    status = pytest.main(options, plugins=[Counting()])
    if status != pytest.ExitCode.OK:
        sys.exit(f"theorems fail, and {KEPT.name} is left as it was")
    lines = (f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
