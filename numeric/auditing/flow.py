"""Draws the flow of relevance: one row per layer, with a step for every cause.

A row's bar is the relevance that passes on.  Above its end, the causes are steps between the
relevance that arrived and the bar's end: to the left if absorbed, to the right if made.
"""

import math
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

from lrp_axioms.numeric.auditing.rounding import accounts, balance, signed

LEFT, RIGHT, WIDTH = 110, 700, 960  # labels, drawing, numbers
TOP, LANE, GAP = 46, 9, 9
TICKS = 6
Scale = Callable[[float], float]
"""Maps logits to places in the drawing."""


def flow(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns rows, ticks and sizes of the drawing, in its own units; amounts are logits.

    A row has its numbers as written, and a ``bar``, x and width, from 0 to the relevance passed on;
    ``carried`` is the x of the line down to the next row.
    """
    low, high = _range(facts)
    unit = (RIGHT - LEFT - 20) / ((high - low) or 1.0)
    x: Scale = lambda value: round(LEFT + 10 + (value - low) * unit, 2)
    rows: list[dict[str, Any]] = []
    y: float = TOP
    for stage in facts["stages"]:
        rows.append(_stage(stage, x, y))
        y += rows[-1]["height"] + GAP
    ends, y = _ends(facts, x, y + GAP)
    steps = [step["cause"] for row in rows for step in row["steps"]]
    return {
        "rows": rows,
        "ends": ends,
        "ticks": [{"x": x(value), "label": f"{value:g}"} for value in _ticks(low, high)],
        "zero": x(0.0),
        "height": y + 8,
        "width": WIDTH,
        "left": LEFT,
        "top": TOP,
        "causes": [cause for cause in facts["causes"] if cause in steps],
    }


def _range(facts: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the least and the most relevance between steps, and between ends, from 0."""
    walks = [(x["arrived"], [-r for r in x["absorbed"].values()]) for x in facts["stages"]]
    walks.append((0.0, [leaf["relevance"] for leaf in facts["leaves"]]))
    levels = [level for start, steps in walks for level in accumulate(steps, initial=start)]
    return min(levels), max(levels)


def _ticks(low: float, high: float) -> list[float]:
    rough = ((high - low) or 1.0) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _stage(stage: Mapping[str, Any], x: Scale, y: float) -> dict[str, Any]:
    arrived, shown, passed = balance(stage["arrived"], stage["absorbed"])
    seen = [cause for cause, number in shown.items() if number != signed(0)]
    level: float = stage["arrived"]
    steps: list[dict[str, Any]] = []
    for n, cause in enumerate(seen):
        after = level - stage["absorbed"][cause]
        left, width = _rectangle(x(level), x(after))
        place = {"x": left, "y": y + n * LANE, "width": max(width, 1)}
        steps.append({"cause": cause, "shown": shown[cause], **place})
        level = after
    return {
        "name": stage["name"],
        "y": y,
        "height": max(2, len(seen)) * LANE,
        "bar": _rectangle(x(0.0), x(stage["passed"])),
        "carried": x(stage["passed"]),
        "steps": steps,
        "numbers": (arrived, signed(float(arrived) - float(passed)), passed),
    }


def _rectangle(a: float, b: float) -> tuple[float, float]:
    return min(a, b), round(abs(a - b), 2)


def _ends(facts: Mapping[str, Any], x: Scale, y: float) -> tuple[list[dict[str, Any]], float]:
    """Places leaves one after the other, from 0 to the sum of their relevance."""
    rows: list[dict[str, Any]] = []
    level, height = 0.0, 2 * LANE
    for leaf, number in zip(facts["leaves"], accounts(facts)[1], strict=True):
        after = level + leaf["relevance"]
        bar = _rectangle(x(level), x(after))
        rows.append(
            {"name": leaf["role"], "y": y, "height": height, "bar": bar, "numbers": (number,)}
        )
        level, y = after, y + height + GAP
    return rows, y
