"""Results as tables of text: one list of columns per experiment, for terminal and HTML alike."""

import html
import math
import re
from collections.abc import Callable, Mapping

from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks.experiments.result import Result

DASH = "–"  # no such value

Column = tuple[str, Callable[[dict], str]]


def _text(key):
    return lambda row: str(row[key])


def _number(key, digits=3):
    return lambda row: DASH if math.isnan(row[key]) else f"{row[key]:.{digits}f}"


def _interval(key, digits=3, *, ends=2):
    """A mean and the ends of its interval, which need no leading zero; a mean alone if exact."""
    mean = _number(key, digits)
    end = lambda value: f"{value:.{ends}f}".replace("0.", ".", 1 if abs(value) < 1 else 0)

    def cell(row):
        low, high = row[f"{key} low"], row[f"{key} high"]
        exact = mean(row) == DASH or low == high
        return mean(row) if exact else f"{mean(row)} [{end(low)}, {end(high)}]"

    return cell


def _both(key):
    """Over all and over content tokens."""
    return lambda row: " / ".join(_number(f"{key} {t}", 2)(row) for t in ("all", "content"))


def _signed(key):
    """A difference; a star where its interval excludes 0."""

    def cell(row):
        star = "*" if row[f"{key} low"] > 0 or row[f"{key} high"] < 0 else " "
        return f"{row[key]:+.3f}{star}"

    return cell


def _above_interval(key):
    """A share with its interval in the line below, for columns that are narrow."""

    def cell(row):
        ends = (f"{row[f'{key} {end}']:.2f}".removeprefix("0") for end in ("low", "high"))
        return f"{row[key]:.2f}\n{'–'.join(ends).replace('1.00', '1')}"

    return cell


def _cause(row):
    """The task, its distance unless all are meant, and the measure unless it is pointing."""
    task = row["task"] + f", {row['distance']}" * (row["distance"] != "all")
    return task if row["measure"] == "pointing" else f"{row['measure']}: {task}"


def _or_dash(cell):
    """A dash where the row, such as the paper's, has no such value."""

    def safe(row):
        try:
            return cell(row)
        except KeyError:
            return DASH

    return safe


COLUMNS: dict[str, list[Column]] = {
    "theorems": [
        ("no.", _text("label")),
        ("statement", _text("statement")),
        ("verdict", _text("verdict")),
        ("witness, or method of proof", lambda row: row["witness"] or row["method"]),
    ],
    "table1": [
        ("maps compared", lambda row: f"{row['explainer']} {row['pair'].replace(' vs ', '–')}"),
        ("r, raw", _interval("r raw", ends=3)),
        ("over seeds", _text("range")),
        ("r, sum\nto one", _interval("r sum to one", ends=3)),
        ("paper", _number("paper r", 4)),
    ],
    "table1-mnist": [
        ("number of the paper", _text("number")),
        ("network", lambda row: f"{row['model']}, seed {row['seed']}"),
        ("level", _text("level")),
        ("bias", _text("bias")),
        ("baseline", _text("baseline")),
        ("maps", lambda row: f"{row['maps']}, {row['pixels']}"),
        ("§", _text("sides")),
        ("r", _interval("r")),
        ("paper", _number("paper r", 4)),
    ],
    "table2": [
        ("method", _text("method")),
        ("r, all\ntokens", _interval("r all")),
        ("r, content\ntokens", _interval("r content")),
        ("r, sum\nto one", _number("r all, sum to one")),
        ("τ", _number("tau all", 2)),
        ("LeRF", _number("LeRF", 2)),
        ("MoRF", _number("MoRF", 2)),
        ("Δ", _number("Δ", 2)),
    ],
    "special": [
        (
            "tokens that count",
            lambda row: row["tokens"] + (f", {row['method']}" if "method" in row else ""),
        ),
        ("share of\n|relevance|", _number("share")),
        ("r of\nAttnLRP", _number("AttnLRP")),
        ("r of\nCP-LRP", _number("CP-LRP")),
        ("gap", _interval("gap")),
    ],
    "sensitivity": [
        ("method", _text("method")),
        ("what is changed", _text("choice")),
        ("mask", _both("attention mask")),
        ("[MASK]", _both("[MASK]")),
        ("deletion", _both("deletion")),
        ("logit diff.", _both("logit difference")),
    ],
    "softmax": [
        ("layer", _text("layer")),
        ("flatness", _number("flatness", 2)),
        ("struct.\nbias", _number("structural_bias", 2)),
        ("lin.\nerror", _number("linearization_error", 2)),
        ("centred", _number("centred_error", 2)),
        ("r Eq. 5", _number("taylor_r", 2)),
        ("r value", _number("value_r", 2)),
        ("gain, all", _signed("gain all")),
        ("content", _signed("gain content")),
    ],
    "figure2": [
        ("layer", lambda row: str(row["layer"] or DASH)),
        ("bypassed", _text("order")),
        ("count", _text("layers")),
        ("r, all\ntokens", _number("r all")),
        ("r, content\ntokens", _number("r content")),
        ("r, sum\nto one", _number("r all, sum to one")),
        ("paper", _number("paper r all, sum to one", 2)),
        ("Δ", _number("Δ", 2)),
        ("paper", _number("paper Δ", 2)),
    ],
    "evaluate": [
        ("method", _text("method")),
        ("r", _number("r", 2)),
        ("τ", _number("tau", 2)),
        ("MoRF", _number("MoRF", 2)),
        ("LeRF", _number("LeRF", 2)),
        ("Δ", _number("Δ", 2)),
        ("top\ndrop", _number("top drop", 2)),
        ("LDS", _number("LDS", 2)),
        ("suff.\ngain", _number("soft sufficiency gain", 2)),
        ("compr.\ngain", _number("soft comprehensiveness gain", 2)),
    ],
    "causes": [
        ("pointing\nby task", _cause),
        ("chance", _number("chance", 2)),
        ("AttnLRP", _above_interval("attnlrp")),
        ("CP-LRP", _above_interval("cp-lrp")),
        ("grad. x\ninput", _above_interval("gradient-x-input")),
        ("IG", _above_interval("integrated-gradients")),
        ("rollout", _above_interval("attention-rollout")),
        ("LOO", _above_interval("loo")),
    ],
    "time": [
        ("tokens", _text("tokens")),
        ("gradient, ms", _number("gradient ms", 1)),
        ("AttnLRP, ms", _number("attnlrp ms", 1)),
        ("CP-LRP, ms", _number("cp-lrp ms", 1)),
        ("LOO, ms", _number("loo ms", 1)),
        ("LOO / AttnLRP", _text("ratio")),
    ],
}
"""Per experiment: header, and how a row of the result becomes a cell."""


MATTER = (
    "test_equal_split_gives_6_6_12_and_12_6_6_where_leave_one_out_gives_24_24_24",
    "test_the_softmax_rule_does_not_conserve_relevance",
)
"""Theorems by their tests: what the paper's two questions come to."""

MORE = ("mass", "rank")
"""What a terminal shows of all tasks together, beside the pointing game of each."""

EVERY: Mapping = {}
SHORT = {"table1-mnist": lambda row: row["reached"]}
"""Which rows of a long table are worth more than a page, which has them all."""
SHORTEST = SHORT | {
    "theorems": lambda row: (
        row["test"].endswith(MATTER) or row["verdict"] not in ("proved", "refuted")
    ),
    "causes": lambda row: (
        row["distance"] == "all"
        and (row["measure"] == "pointing" or (row["task"] == "all" and row["measure"] in MORE))
    ),
    "figure2": lambda row: row["order"] in ("AttnLRP", "front to back") and row["layer"] % 4 == 0,
}
"""Which of them a terminal shows beside all other tables."""


def cells(result: Result, *, only: Mapping = EVERY) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of the table, as text; those that ``only`` names by table, if any are."""
    columns = COLUMNS[result.table]
    shown = list(filter(only.get(result.table), result.rows)) or result.rows
    rows = [[_or_dash(cell)(row) for _, cell in columns] for row in shown]
    return [header for header, _ in columns], rows


def markdown(result: Result) -> str:
    """The table as Markdown, short."""
    headers, rows = cells(result, only=SHORT)
    right = numeric(rows, len(headers))
    lines = [[" ".join(header.split()) for header in headers]]
    lines += [["--:" if n else "---" for n in right], *rows]
    return "\n".join(f"| {' | '.join(map(escaped, line))} |" for line in lines)


def escaped(text: str) -> str:
    """``text`` in one line of Markdown, in which nothing is a tag, a picture or a cell's end."""
    one_line = html.escape(" ".join(text.splitlines()), quote=False)
    return re.sub(r"[|`]|](?=[(\[:])", r"\\\g<0>", one_line)


def terminal(result: Result, *, only: Mapping = SHORTEST) -> Table:
    """The table for a terminal of 80 columns, numbers to the right; ``only`` as of ``cells``."""
    headers, rows = cells(result, only=only)
    table = Table(
        title=result.title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for n, (header, right) in enumerate(zip(headers, numeric(rows, len(headers)), strict=True)):
        # Of a number: rather wrap its header.
        widths = [len(line) for row in rows if right for line in row[n].split("\n")]
        width = max(widths, default=None)
        table.add_column(Text(header), justify="right" if right else "left", min_width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def numeric(rows: list[list[str]], columns: int) -> list[bool]:
    """Which columns hold numbers alone."""
    number = re.compile(rf"[-+]?\d|{DASH}")
    return [all(number.match(row[n]) for row in rows) for n in range(columns)]
