"""``lrp-axioms plan``: the rule that will act on each operation of a stock model."""

from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.benchmarks.commands.audit import TEXT, check_texts, inputs_of, loaded
from lrp_axioms.benchmarks.commands.console import mendable, problems
from lrp_axioms.benchmarks.commands.options import MethodsOfRules, ModelFirst, Truncate, names_of
from lrp_axioms.benchmarks.commands.output import answer, present
from lrp_axioms.numeric.methods.catalogue import WITH_RULES


def plan(
    model: ModelFirst,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]", help=f'A text, or a question and its context; default: "{TEXT}"'
        ),
    ] = None,
    *,
    method: MethodsOfRules = "attnlrp",
    truncate: Truncate = False,
):
    """List every operation that a rule acts on, by layer, and every operation without a rule."""
    with mendable():
        methods = names_of("--method", [method], WITH_RULES)
        texts = texts or []
        check_texts(model, texts)
        classifier = loaded(model, texts)
        with problems.status("planning"):
            from lrp_axioms.numeric import planning

            inputs, _ = inputs_of(classifier, texts, truncate=truncate)
            found = [planning.plan(classifier.model, inputs, name) for name in methods]
    facts = [*map(asdict, found)]
    several = {"method": ",".join(methods), "plans": facts}
    answer(**(several if methods[1:] else facts[0]))
    whole, short = (
        [Text(of(x), no_wrap=True, overflow="ignore") for x in found]
        for of in (str, planning.summary)
    )
    present(whole, [_rules(found)] if methods[1:] else short)
    if refusals := [x.refusal for x in found if x.refusal]:
        with mendable():
            raise UnassignedOperation("\n".join(dict.fromkeys(refusals)))


def _rules(found) -> Table:
    """Lists how many operations of each kind every method has a rule for, and which rule."""
    counts = {
        x.method: Counter((op.kind, op.rule or "no rule") for op in x.operations) for x in found
    }
    table = Table("kind", *counts, box=None, pad_edge=False)
    for kind in dict.fromkeys(kind for each in counts.values() for kind, _ in each):
        cells = (
            ", ".join(f"{n} {rule}" for (other, rule), n in each.items() if other == kind)
            for each in counts.values()
        )
        table.add_row(kind, *cells)
    return table
