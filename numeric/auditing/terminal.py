"""Shows an audit in a terminal: a ledger that adds up, its worst lines, its verdicts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lrp_axioms.numeric.auditing.meanings import MEANINGS
from lrp_axioms.numeric.auditing.rounding import accounts, balance, by_kind, signed
from lrp_axioms.numeric.results import render
from lrp_axioms.numeric.results.spelled import readable

MOST_TOKENS = 40  # longer inputs are coloured only; their numbers are in the other forms
MOST_PLACES = 2
MOST_CAUSES = 5  # in a summary
MOST_REFUTED = 2
BAR = 20
LINE: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}  # of a text that is cut
STYLES = {"proved": "green", "refuted": "bold red", "bounded": "yellow", "open": "magenta"}


Column = tuple[str, JustifyMethod]


def terminal(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yields the parts of a report on ``plain`` data, for rich; readable from 80 columns on."""
    yield _named(_rows(facts) | {f"note {n}": x for n, x in enumerate(facts["notes"], 1)})
    yield from _tokens(facts)
    yield from _causes(facts)
    yield from _stages(facts)
    yield from _kinds(facts)
    yield from _worst(facts)
    yield from _verdicts(facts)
    yield from _structure(facts)


def summary(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yields one screen: the residual by cause, refuted statements, and the count of verdicts."""
    names = ("model", "input", "rules", facts["explains"], "logit", "residual", "explained")
    yield _named({name: x for name, x in _rows(facts).items() if name in names}, **LINE)
    _, words, *_ = section(facts).terminal()
    words.no_wrap, words.overflow = True, "ellipsis"
    yield words
    yield from _causes(facts, MOST_CAUSES)
    counts = Counter(verdict["verdict"] for verdict in facts["verdicts"])
    said = ", ".join(f"{n} {name}" for name, n in counts.most_common())
    yield Text(f"Verdicts: {said}", style="bold")
    refuted = [v["statement"] for v in facts["verdicts"] if v["verdict"] == "refuted"]
    for statement in refuted[:MOST_REFUTED]:
        yield Text(f"refuted: {statement}", **LINE)
    if len(refuted) > MOST_REFUTED:
        yield Text(f"and {len(refuted) - MOST_REFUTED} more that are refuted")


def comparison(found: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Yields one screen of audits of one logit: the residual by cause, and verdicts, by rules."""
    rows = _rows(found[0])
    shared = ("model", "input", found[0]["explains"], "logit")
    yield _named({name: rows[name] for name in shared}, **LINE)
    names: list[Column] = [(facts["composite"]["name"], "right") for facts in found]
    table = _table(("cause", "left"), *names)
    shown = [accounts(facts)[0] for facts in found]
    for cause in _shown_causes(shown):
        table.add_row(Text(cause), *(each.get(cause, signed(0)) for each in shown))
    table.add_row(Text("residual", style="bold"), *(signed(facts["residual"]) for facts in found))
    shares = [facts["explained"] for facts in found]
    table.add_row("explained", *("" if x is None else f"{100 * x:.0f} %" for x in shares))
    for name in STYLES:
        counts = [sum(v["verdict"] == name for v in facts["verdicts"]) for facts in found]
        if any(counts):
            table.add_row(f"statements {name}", *map(str, counts))
    yield _heading("The residual by cause: positive is absorbed, negative is made")
    yield table


def _heading(text: str) -> Padding:
    return Padding(Text(text, style="bold"), (1, 0, 0, 0))


def _table(*columns: Column) -> Table:
    """Makes a table with numbers on the right; text is folded rather than cut."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name, justify in columns:
        table.add_column(Text(name), justify=justify, overflow="fold", no_wrap=justify == "right")
    return table


def _grid() -> Table:
    """Makes a table of names and values."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _named(rows: Mapping[str, str], **style: Any) -> Table:
    grid = _grid()
    for name, value in rows.items():
        grid.add_row(Text(name, style="dim"), Text(value, **style))
    return grid


def _rows(facts: Mapping[str, Any]) -> dict[str, str]:
    error, share = facts["forward_error"], facts["explained"]
    said = "of the logit's variance without random quarters of the tokens"
    explained = {} if share is None else {"explained": f"{100 * share:.0f} % {said}"}
    return {
        "model": f"{facts['model']['name']} ({facts['model']['class']})",
        "input": facts["input"],
        "rules": f"{facts['composite']['name']}, epsilon {facts['epsilon']:g}",
        facts["explains"]: f"{facts['target']} ({facts['label']})",
        "logit": signed(facts["logit"]),
        "residual": f"{signed(facts['residual'])}: the logit minus what the words received",
        **explained,
        "capture": f"the graph gives the model's logits to {error:.1e}, in float64",
        "seconds": ", ".join(f"{name} {s:.1f}" for name, s in facts["seconds"].items()),
    }


def section(facts: Mapping[str, Any]) -> render.Section:
    """Makes a section of the tokens and the relevance of their whole embeddings."""
    tokens = readable([entry["token"] for entry in facts["tokens"]])
    relevance = [entry["relevance"] for entry in facts["tokens"]]
    return render.Section(tokens, relevance, "", "", render.legend(facts["explains"]))


def _tokens(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    _, words, legend, table, _ = section(facts).terminal()
    yield _heading("Relevance of the whole embedding, in logits")
    yield words
    yield legend
    count = len(facts["tokens"])
    if count <= MOST_TOKENS:
        yield table
    else:
        yield Text(f"{count} positions: their numbers are in --json and --html.")


def _causes(facts: Mapping[str, Any], most: int | None = None) -> Iterator[RenderableType]:
    """Yields all causes and their sum; or the first ``most`` that are not 0 in four digits."""
    causes, total = facts["causes"], facts["residual"]
    shown, _ = accounts(facts)
    table = _table(("logits", "right"), ("", "left"), ("cause", "left"))
    top = max(map(abs, causes.values()), default=0.0) or 1.0
    rows = list(shown.items())
    if most is not None:
        rows = [row for row in rows if row[1] != signed(0)][:most]
    for cause, number in rows:
        amount = causes[cause]
        bar = ("█" if amount > 0 else "░") * round(BAR * abs(amount) / top)
        said = Text.assemble((cause, "bold"), f": {MEANINGS[cause]}")
        if number == signed(0) and amount:
            said.append(f" ({amount:.1e})")
        table.add_row(number, bar, said)
    if most is None:
        table.add_row(signed(total), "", Text("residual", style="bold"))
    yield _heading("The residual by cause: positive is absorbed, negative is made")
    yield table


def _stages(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    rows = [(s, *balance(s["arrived"], s["absorbed"])) for s in facts["stages"]]
    causes = _shown_causes(shown for _, _, shown, _ in rows)
    amounts: list[Column] = [
        (name.replace(" ", "\n"), "right") for name in ("arrives", *causes, "passes on")
    ]
    table = _table(("layer", "left"), *amounts)
    for stage, arrived, shown, passed in rows:
        table.add_row(Text(stage["name"]), arrived, *(shown.get(c, "") for c in causes), passed)
    yield _heading("By layer, from the logit down: arrives = absorbed by each cause + passes on")
    yield table
    leaves = _table(("logits", "right"), ("ends in", "left"))
    _, ends = accounts(facts)
    for leaf, number in zip(facts["leaves"], ends, strict=True):
        leaves.add_row(number, Text(f"{leaf['role']}: {leaf['name']}"))
    yield leaves


def _shown_causes(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Returns causes with an amount other than 0; rows add up without the others."""
    found = {cause: None for row in rows for cause, n in row.items() if n != signed(0)}
    return list(found)


def _kinds(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    rows = by_kind(facts)
    causes = _shown_causes(rows.values())
    counts = {kind: [op["kind"] for op in facts["operations"]].count(kind) for kind in rows}
    table = _table(
        ("kind", "left"), ("operations", "right"), *((cause, "right") for cause in causes)
    )
    for kind, row in rows.items():
        table.add_row(Text(kind), str(counts[kind]), *(row.get(cause, "") for cause in causes))
    yield _heading("Absorbed by kind of operation")
    yield table


def _worst(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    if not facts["worst"]:
        return
    numbers: list[Column] = [(name, "right") for name in ("arrived", "absorbed", "passed")]
    table = _table(*numbers, ("operation", "left"))
    for number in facts["worst"]:
        op = facts["operations"][number]
        arrived, shown, passed = balance(op["arrived"], op["absorbed"])
        seen = {cause: n for cause, n in shown.items() if n != signed(0)}
        causes = ", ".join(seen if len(seen) < 2 else (f"{c} {n}" for c, n in seen.items()))
        said = f"{_place(op)}\n{op['kind']} by {op['rule']}: {causes or 'nothing'}"
        taken = signed(float(arrived) - float(passed))
        table.add_row(arrived, taken, passed, Text(said))
    yield _heading("What absorbs or makes most: place in the model, kind by rule: cause")
    yield table


def _place(op: Mapping[str, Any]) -> str:
    return f"{op['module'] or '(the model itself)'} {op['line']}".strip()


def _verdicts(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield _heading("Verdicts")
    grid = _grid()
    for verdict in facts["verdicts"]:
        name = verdict["verdict"]
        said = Text.assemble((verdict["statement"], "bold"), f"\n{verdict['reason']}")
        if verdict["witness"]:
            said.append(f"\nwitness: {verdict['witness']}")
        places = [_place(facts["operations"][n]) for n in verdict["operations"]]
        if name == "refuted" and places:
            more = len(places) - MOST_PLACES
            tail = f" and {more} more" if more > 0 else ""
            said.append(f"\nat: {', '.join(places[:MOST_PLACES])}{tail}", style="dim")
        grid.add_row(Text(name, style=STYLES.get(name, "")), said)
    yield grid


def _structure(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    found = facts["structure"]
    yield _heading("Structure")
    for pair in found["pairs"]:
        yield Text(
            f"{pair['count']} x {pair['below']} read by {pair['above']}: products that can be "
            "re-associated"
        )
    for leaf, depths in found["depths"].items():
        yield Text(f"{leaf}: {span(depths)}")
    for name, count in found["merges"].items():
        yield Text(f"{count} x {name} that canonization would merge")


def span(depths: Mapping[str, int]) -> str:
    """Says in words how many paths there are and how long they are."""
    by_depth = {int(depth): paths for depth, paths in depths.items()}
    paths = sum(by_depth.values())
    most = max(by_depth, key=by_depth.__getitem__)
    return (
        f"{paths:.4g} paths from the logit, through {min(by_depth)} to {max(by_depth)} bilinear "
        f"products (most often {most})"
    )
