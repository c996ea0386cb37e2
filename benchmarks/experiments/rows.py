"""Rows of tables as data: one TOML file each, beside the paper's own numbers.

Methods are imported where their options are looked at, so that results are shown without them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lrp_axioms.axioms import kinds, schema
from lrp_axioms.axioms.composites import (
    ATTNLRP,
    CP_LRP,
    DEPASS,
    IDENTITY_SOFTMAX,
    LIBRAGRAD,
    RELP,
    Composite,
    bypass_softmax,
)
from lrp_axioms.benchmarks.experiments.record import experiment
from lrp_axioms.benchmarks.names import ON_TEXTS
from lrp_axioms.numeric.methods.catalogue import METHODS

FOLDER = Path(__file__).parents[1] / "configs"

COMPOSITES = {"attnlrp": ATTNLRP, "cp-lrp": CP_LRP}
NEIGHBOURS = {x.name: x for x in (IDENTITY_SOFTMAX, RELP, LIBRAGRAD, DEPASS)}
"""Methods of other papers that are rules alone; MambaLRP has none for attention."""
MASK = "[MASK]"  # as a removal: the id that the tokenizer has for it
DTYPES = ("float32", "float64")
NO_ROWS = ("sources", "table1-mnist")  # files of other modules
LOO, LRP = "table2-{}-loo", ("table2-{}-attnlrp", "table2-{}-cp-lrp")
"""Rows that several tables need, by data set."""
OPERATIONS = {"linear": kinds.LINEAR, "layer_norm": kinds.LAYER_NORM}  # whose rule a row may name
WITHIN = {kinds.TAYLOR: ATTNLRP, kinds.IDENTITY: IDENTITY_SOFTMAX}
"""Rule at the softmax -> rules of the layers that do not bypass it."""
SWEEP = {
    "front to back": lambda n, depth: range(n),
    "back to front": lambda n, depth: range(n - 1, depth),
    "single layer": lambda n, depth: [n - 1],
}
"""Order -> layers (from 0) that bypass the softmax at its n-th cell (from 1) of Table A3."""


@dataclass(frozen=True)
class Variant:
    """A method and its options, or the difference of its maps for the two classes."""

    method: str | Composite
    options: Mapping = field(default_factory=dict)
    contrast: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    """One file of ``configs``: variants of methods, a model and a data set.

    ``variants``: label -> method and its options, the rules it changes ("linear", "layer_norm"),
    and ``contrast = true`` for the difference of two logits.  ``sweep``: every mix of Table A3
    instead, and ``softmax`` the rule where it is not bypassed.  ``paper``: label (or order of the
    sweep) -> the paper's numbers.
    """

    name: str
    table: str
    dataset: str
    model: str
    examples: int | None = None  # None: all
    curves: bool = True  # whether LeRF and MoRF are measured
    dtype: str = "float32"
    sweep: bool = False
    softmax: str = kinds.TAYLOR
    variants: Mapping[str, Mapping] = field(default_factory=dict)
    paper: Mapping[str, Mapping[str, float | list[float]]] = field(default_factory=dict)

    def record(self) -> dict:
        """Returns all settings of the computation, without the paper's numbers."""
        found = {key: value for key, value in asdict(self).items() if key not in ("name", "paper")}
        if self.softmax == kinds.TAYLOR:  # which older runs do not name
            del found["softmax"]
        return found

    def composites(self, depth: int) -> dict[str, Variant]:
        """Returns label -> variant on a model of ``depth`` layers."""
        if self.sweep:
            chosen = sorted({(), *(tuple(sorted(c)) for c in cells(depth).values())})
            within = WITHIN[self.softmax]
            mixes = [bypass_softmax(c, within) if c else within for c in chosen]
            labels = [layers_label(c, self.softmax) for c in chosen]
            return dict(zip(labels, map(Variant, mixes), strict=True))
        return {label: _variant(depth, **options) for label, options in self.variants.items()}

    def steps(self) -> dict[str, str]:
        """Returns label -> number of steps in words, for variants that sum along a path."""
        from lrp_axioms.numeric.methods.options import resolve

        used = {k: resolve(v.method, v.options)[2] for k, v in self.composites(1).items()}
        return {label: _steps(**options) for label, options in used.items() if "steps" in options}


def cells(depth: int) -> dict[tuple[str, int], frozenset[int]]:
    """Returns (order, n) of Table A3 -> layers that bypass the softmax."""
    return {
        (order, n): frozenset(chosen(n, depth))
        for order, chosen in SWEEP.items()
        for n in range(1, depth + 1)
    }


def layers_label(layers, softmax: str = kinds.TAYLOR) -> str:
    """Names the layers that bypass the softmax, from 1, after another rule at it than Eq. 5."""
    rule = [] if softmax == kinds.TAYLOR else [softmax]
    return " ".join(rule + [str(layer + 1) for layer in sorted(layers)]) or "none"


def _steps(*, steps, tolerance, **_):
    from lrp_axioms.numeric.methods.integrated_gradients import DOUBLINGS

    more = f", and up to {steps * 2**DOUBLINGS} where {tolerance} logits or more are left"
    return f"{steps} steps" + ("" if tolerance is None else more)


def _variant(depth, method, *, contrast=False, **options):
    rules = {OPERATIONS[key]: options.pop(key) for key in OPERATIONS if key in options}
    if rules:
        if method not in COMPOSITES:
            raise ValueError(f"only {', '.join(COMPOSITES)} have rules that a row may change")
        changed = ", ".join(f"{kind} {rule}" for kind, rule in rules.items())
        method = replace(COMPOSITES[method], name=f"{method}, {changed} in every layer")
        method = replace(method, layers=dict.fromkeys(range(depth), rules))
    else:
        method = NEIGHBOURS.get(method, method)
    return Variant(method, options, contrast)


def names() -> list[str]:
    """Returns all names of rows in ``configs``."""
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem not in NO_ROWS)


def load(name: str) -> Row:
    """Loads the row of ``configs/NAME.toml``, or of a TOML file elsewhere.

    Raises ValueError that lists everything that is wrong with the file, by key.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.exists():
        raise ValueError(
            f"there is no row {name!r}; the rows are {', '.join(names())}, or a TOML file"
        )
    found = schema.read(path, dict[str, Any], "row")
    problems = list(_problems(found))
    if problems:
        raise ValueError("\n".join(f"{path}: {problem}" for problem in problems))
    return schema.parse(json.dumps({"name": path.stem} | found), Row, f"{path} is no row")


def check_together(found: Sequence[Row], data) -> None:
    """Raises ValueError unless rows about ``data`` can be in one table: every problem of theirs."""
    by_label: dict[str, list[str]] = {}
    by_count: dict[int, list[str]] = {}
    for row in found:
        by_count.setdefault(len(data.first(row.examples).texts), []).append(row.name)
        for label in row.variants:
            by_label.setdefault(label, []).append(row.name)
    problems = [
        f"{' and '.join(names)} both have [variants.{label!r}]; give each a label of its own"
        for label, names in by_label.items()
        if len(names) > 1
    ]
    if len(by_count) > 1:
        counts = "; ".join(f"{n}: {', '.join(names)}" for n, names in by_count.items())
        problems.append(f"rows of one table have different numbers of examples: {counts}")
    if problems:
        raise ValueError("\n".join(problems))


def _problems(found):
    known = {f for f in Row.__dataclass_fields__ if f != "name"}
    for key in sorted(found.keys() - known):
        yield f"unknown key {key!r}; the keys are {', '.join(sorted(known))}"
    for key in ("table", "dataset", "model"):
        if not isinstance(found.get(key), str):
            yield f'{key} is missing or no text; write {key} = "..."'
    if isinstance(found.get("table"), str) and found["table"] not in ON_TEXTS:
        yield f"table = {found['table']!r}; the tables are {', '.join(ON_TEXTS)}"
    for key in ("curves", "sweep"):
        if not isinstance(found.get(key, False), bool):
            yield f"{key} = {found[key]!r}; write true or false"
    if found.get("softmax", kinds.TAYLOR) not in WITHIN:
        yield f"softmax = {found['softmax']!r}; the rules are {', '.join(WITHIN)}"
    if "softmax" in found and not found.get("sweep"):
        yield "softmax would be ignored; it is about rows with sweep = true"
    examples = found.get("examples", 1)
    if type(examples) is not int or examples < 1:
        yield f"examples = {examples!r}; write a number from 1, or leave it out for all"
    if found.get("dtype", "float32") not in DTYPES:
        yield f"dtype = {found['dtype']!r}; the dtypes are {', '.join(DTYPES)}"
    variants = found.get("variants", {})
    if not isinstance(variants, dict):
        yield 'variants is no table; write [variants."LABEL"] for each'
        return
    if variants and found.get("sweep"):
        yield "has both [variants] and sweep = true; keep one"
    table = found.get("table")
    measured_alone = isinstance(table, str) and table in ON_TEXTS and experiment(table).measure
    if not (measured_alone or variants or found.get("sweep")):
        yield "has neither [variants] nor sweep = true; add one"
    for label, options in variants.items():
        yield from _variant_problems(f"variants.{label}", options)


def _variant_problems(place, options):
    from lrp_axioms.numeric.methods.options import resolve
    from lrp_axioms.numeric.methods.removals import REMOVALS

    if not isinstance(options, dict):
        yield f"{place} is no table; write [{place}] with a method in it"
    elif options.get("method") not in (*METHODS, *NEIGHBOURS):
        method, known = options.get("method"), ", ".join((*METHODS, *NEIGHBOURS))
        yield f"{place}.method = {method!r}; the methods are {known}"
    else:
        try:
            variant = _variant(1, **options)
            resolve(variant.method, variant.options)
        except (TypeError, ValueError) as error:
            yield f"{place}: {error}"
            return
        removal = variant.options.get("removal", REMOVALS[0])
        if removal not in (*REMOVALS, MASK) and (type(removal) is not int or removal < 0):
            legal = ", ".join((*REMOVALS, MASK))
            yield f"{place}.removal = {removal!r}; write one of {legal}, or the id of a token"
