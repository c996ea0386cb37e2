"""Ratios of time and memory: kept in ``baseline.json``, compared, and shown in ``RESULTS.md``.

A ratio of two runs that alternate on one machine says the same tomorrow; seconds do not.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lrp_axioms.axioms import schema
from lrp_axioms.axioms.writing import write_atomically
from lrp_axioms.benchmarks.research.speed import machine
from lrp_axioms.benchmarks.research.speed.groups import GROUPS

BASELINE = Path(__file__).parents[2] / "baseline.json"
PAGE = BASELINE.with_name("RESULTS.md")
SLACK = 0.10  # a median may be worse by this share of the baseline's median
DIGITS = 5  # significant ones, that are kept

BETTER = {"lower": "≤", "higher": "≥"}


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """One measured ratio: a value per alternating round, its goal, and where it was measured.

    Raises ValueError that lists everything wrong with it.
    """

    name: str
    group: str  # a key of GROUPS
    values: tuple[float, ...]
    better: str  # "lower" or "higher"
    goal: float | None = None
    where: machine.Where | None = None  # None: in this run

    def __post_init__(self):
        allowed = {"group": GROUPS, "better": BETTER}
        wrong = [
            f"{key}={getattr(self, key)!r}: pass one of {', '.join(map(repr, choices))}"
            for key, choices in allowed.items()
            if getattr(self, key) not in choices
        ]
        if not self.name or set(self.name) & set("|\n"):
            wrong.append("the name must be a line of text without '|'")
        if not self.values or not all(math.isfinite(v) and v > 0 for v in self.values):
            wrong.append(f"values={self.values}: pass one positive ratio per round")
        if self.goal is not None and not self.goal > 0:
            wrong.append(f"goal={self.goal}: pass a positive ratio, or None")
        if wrong:
            raise ValueError(f"ratio {self.name!r}: {'; '.join(wrong)}")

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Returns lower quartile, median and upper quartile over the rounds."""
        return tuple(np.quantile(self.values, (0.25, 0.5, 0.75)).tolist())

    @property
    def median(self) -> float:
        return self.quartiles[1]

    @property
    def favourable(self) -> float:
        """Returns the quartile on the better side."""
        return self.quartiles[0 if self.better == "lower" else 2]

    def meets(self, value: float) -> bool:
        """Whether a value is as good as the goal."""
        return self.goal is None or (
            value <= self.goal if self.better == "lower" else value >= self.goal
        )

    def worse_by(self, other: "Ratio") -> float:
        """Returns how much worse this median is, as a share of the other's; negative: better."""
        change = self.median / other.median - 1
        return change if self.better == "lower" else -change

    def __str__(self):
        low, median, high = self.quartiles
        return f"{median:.3f} [{low:.3f}, {high:.3f}]"


def compare(found: Iterable[Ratio], baseline: Mapping[str, Ratio]) -> list[str]:
    """Complains of each ratio that is worse than the baseline; ignores ratios that it lacks."""
    return [
        f"{new.name}: {complaint}; mend it, or accept it with `make baseline`"
        for new in found
        if new.name in baseline
        for complaint in _complaints(new, baseline[new.name])
    ]


def _complaints(new, old):
    if new.better != old.better:
        yield f"declared better={new.better!r}, where the baseline has {old.better!r}"
        return
    worse = new.worse_by(old)
    if worse > SLACK:
        yield (
            f"{new} is {100 * worse:.0f} % worse than the baseline's {old} ({new.better} is "
            f"better, {100 * SLACK:.0f} % is allowed)"
        )
    if new.meets(old.median) and not new.meets(new.favourable):
        yield (
            f"{new} misses its goal {BETTER[new.better]} {new.goal} even at the favourable "
            f"quartile; the baseline's {old} meets it"
        )


def remarks(
    found: Iterable[Ratio], baseline: Mapping[str, Ratio], place: machine.Where
) -> list[str]:
    """Lists new ratios, changed goals and baselines of other machines; none is a failure."""
    found = list(found)
    known = [new for new in found if new.name in baseline]
    fresh = [new.name for new in found if new.name not in baseline]
    said = [f"not in the baseline until `make baseline`: {'; '.join(fresh)}"] if fresh else []
    said += [
        f"{new.name}: the goal is {new.goal}, in the baseline {old}; `make baseline` renews it"
        for new in known
        if (old := baseline[new.name].goal) != new.goal
    ]
    elsewhere: dict[str, int] = {}
    for new in known:
        where = baseline[new.name].where
        if not machine.same(where, place):
            elsewhere[machine.name(where)] = elsewhere.get(machine.name(where), 0) + 1
    said += [
        f"{count} of these ratios have a baseline from another machine: {other}; "
        f"this one: {machine.name(place)}"
        for other, count in elsewhere.items()
    ]
    missing = len(set(baseline) - {new.name for new in found})
    return said + ([f"{missing} ratios of the baseline were not measured now"] if missing else [])


def table(found: Iterable[Ratio], baseline: Mapping[str, Ratio]) -> list[str]:
    """Returns aligned lines with each ratio beside the baseline's."""
    rows = [("ratio", "now", "baseline", "worse by", "goal", "")]
    for new in sorted(found, key=_order):
        old = baseline.get(new.name)
        change = f"{new.worse_by(old):+.1%}" if old and old.better == new.better else "-"
        rows.append((new.name, str(new), str(old or "-"), change, *_verdict(new)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def render(baseline: Mapping[str, Ratio]) -> str:
    """Renders the page of a baseline, in Markdown."""
    lines = [HEAD]
    if not baseline:
        return "\n".join([*lines, "Nothing was measured yet.", ""])
    ordered = sorted(baseline.values(), key=_order)
    places = list(dict.fromkeys(machine.described(ratio.where) for ratio in ordered))
    several = len(places) > 1
    for group, sentence in GROUPS.items():
        of_group = [ratio for ratio in ordered if ratio.group == group]
        if not of_group:
            continue
        columns = ["what", "median [quartiles]", "rounds", "goal", "", *["run"] * several]
        lines += [f"## {group[0].upper()}{group[1:]}", "", sentence, ""]
        lines += [_row(columns), _row("---" for _ in columns)]
        for ratio in of_group:
            run = places.index(machine.described(ratio.where)) + 1
            cells = [ratio.name, ratio, len(ratio.values), *_verdict(ratio), *[run] * several]
            lines.append(_row(cells))
        lines.append("")
    lines += ["## Where it was measured", ""]
    lines += [f"{n}. {place}" if several else place for n, place in enumerate(places, 1)]
    return "\n".join([*lines, ""])


HEAD = f"""# Ratios of time and memory

Written by `make baseline` from `baseline.json`, not by hand. Runs that are compared alternate; a
ratio is the median over rounds with its quartiles. `make bench` measures again, and fails by name
where a median is more than {100 * SLACK:.0f} % worse than here, or a goal is missed that is
met here.
"""


def _row(cells):
    return f"| {' | '.join(map(str, cells))} |"


def _verdict(ratio):
    if ratio.goal is None:
        return "-", ""
    goal = f"{BETTER[ratio.better]} {ratio.goal:g}"
    return goal, "met" if ratio.meets(ratio.median) else "NOT met"


def _order(ratio):
    """Sorts by group, then by name with its numbers as numbers."""
    parts = re.split(r"(\d+)", ratio.name)
    return list(GROUPS).index(ratio.group), [int(p) if p.isdigit() else p for p in parts]


@dataclass(frozen=True)
class Line:
    """Fields of a Ratio in the file, under its name."""

    group: str
    better: str
    goal: float | None
    values: tuple[float, ...]
    where: machine.Where


@dataclass(frozen=True)
class Baseline:
    """Fields of the file; raises ValueError for an invalid ratio."""

    ratios: dict[str, Line]

    def __post_init__(self):
        self.named()

    def named(self) -> dict[str, Ratio]:
        return {name: Ratio(name=name, **vars(line)) for name, line in self.ratios.items()}


def read(path: Path) -> dict[str, Ratio]:
    """Reads the baseline by name; raises ValueError that names a file without one."""
    try:
        return schema.read(path, Baseline, "baseline").named()
    except ValueError as error:
        raise ValueError(
            f'{error}; restore it from the last commit, or begin with {{"ratios": {{}}}}'
        ) from error


def write(path: Path, baseline: Mapping[str, Ratio]) -> None:
    """Writes the baseline, a line per ratio in the page's order, and the page beside it."""
    ordered = sorted(baseline.values(), key=_order)
    lines = [f"  {_json(ratio.name)}: {_json(_line(ratio))}" for ratio in ordered]
    body = "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"
    text = f'{{"ratios": {body}}}\n'
    write_atomically(path, text.encode())
    page = render(read(path))  # shows the stored values
    write_atomically(path.with_name(PAGE.name), page.encode())


def _line(ratio):
    values = [float(f"{value:.{DIGITS}g}") for value in ratio.values]
    own = {"group": ratio.group, "better": ratio.better, "goal": ratio.goal, "values": values}
    return own | {"where": asdict(ratio.where)}


def _json(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


if __name__ == "__main__":  # after a line of the baseline was removed by hand
    write(BASELINE, read(BASELINE))
