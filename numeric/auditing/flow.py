"""Draws the flow of relevance: one row per layer, with a step for every cause.

A row's bar is the relevance that passes on.  Above its end, the causes are steps between the
relevance that arrived and the bar's end: to the left if absorbed, to the right if made.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lrp_axioms.numeric.auditing.rounding import accounts, balance, signed

LEFT, RIGHT, WIDTH = 110, 700, 960  # labels, drawing, numbers
TOP, LANE, GAP = 46, 9, 9
TICKS = 6


@dataclass(frozen=True, kw_only=True)
class Step:
    """One cause in one layer, or one end of relevance, as a rectangle."""

    cause: str
    shown: str
    x: float
    y: float
    width: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """A layer: its bar from 0 to the relevance passed on, its steps, and its numbers as written."""

    name: str
    y: float
    height: float
    bar: tuple[float, float]  # x, width
    carried: float | None  # x of the line down to the next row
    steps: tuple[Step, ...]
    numbers: tuple[str, ...]


Scale = Callable[[float], float]
"""Maps logits to places in the drawing."""


def flow(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns rows, ticks and sizes of the drawing, in its own units; amounts are logits."""
    x = _scale(facts)
    rows: list[Row] = []
    y: float = TOP
    for stage in facts["stages"]:
        rows.append(_stage(stage, x, y))
        y += rows[-1].height + GAP
    ends, y = _ends(facts, x, y + GAP)
    ticks = [{"x": x(value), "label": f"{value:g}"} for value in _ticks(*_range(facts))]
    steps = [step.cause for row in rows for step in row.steps]
    return {
        "rows": rows,
        "ends": ends,
        "ticks": ticks,
        "zero": x(0.0),
        "height": y + 8,
        "width": WIDTH,
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "causes": [cause for cause in facts["causes"] if cause in steps],
    }


def _range(facts: Mapping[str, Any]) -> tuple[float, float]:
    levels = [0.0, *(stage["arrived"] for stage in facts["stages"])]
    for stage in facts["stages"]:
        level = stage["arrived"]
        for amount in stage["absorbed"].values():
            level -= amount
            levels.append(level)
    end = 0.0
    for leaf in facts["leaves"]:
        end += leaf["relevance"]
        levels.append(end)
    return min(levels), max(levels)


def _scale(facts: Mapping[str, Any]) -> Scale:
    low, high = _range(facts)
    unit = (RIGHT - LEFT - 20) / ((high - low) or 1.0)
    return lambda value: round(LEFT + 10 + (value - low) * unit, 2)


def _ticks(low: float, high: float) -> list[float]:
    rough = ((high - low) or 1.0) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _stage(stage: Mapping[str, Any], x: Scale, y: float) -> Row:
    arrived, shown, passed = balance(stage["arrived"], stage["absorbed"])
    seen = [cause for cause, number in shown.items() if number != signed(0)]
    height = max(2, len(seen)) * LANE
    level: float = stage["arrived"]
    steps: list[Step] = []
    for cause in seen:
        after = level - stage["absorbed"][cause]
        lane = y + len(steps) * LANE
        left, width = _rectangle(x(level), x(after))
        steps.append(Step(cause=cause, shown=shown[cause], x=left, y=lane, width=max(width, 1)))
        level = after
    return Row(
        name=stage["name"],
        y=y,
        height=height,
        bar=_rectangle(x(0.0), x(stage["passed"])),
        carried=x(stage["passed"]),
        steps=tuple(steps),
        numbers=(arrived, signed(float(arrived) - float(passed)), passed),
    )


def _rectangle(a: float, b: float) -> tuple[float, float]:
    return min(a, b), round(abs(a - b), 2)


def _ends(facts: Mapping[str, Any], x: Scale, y: float) -> tuple[list[Row], float]:
    """Places leaves one after the other, from 0 to the sum of their relevance."""
    rows, level = [], 0.0
    for leaf, number in zip(facts["leaves"], accounts(facts)[1], strict=True):
        after = level + leaf["relevance"]
        rows.append(
            Row(
                name=leaf["role"],
                y=y,
                height=2 * LANE,
                bar=_rectangle(x(level), x(after)),
                carried=None,
                steps=(),
                numbers=(number,),
            )
        )
        level, y = after, y + 2 * LANE + GAP
    return rows, y
