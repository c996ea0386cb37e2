"""``lrp-axioms plan``: the rule that will act on each operation of a stock model."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.benchmarks.commands.audit import TEXT, check_texts, inputs_of, loaded
from lrp_axioms.benchmarks.commands.console import check_names, mendable, problems
from lrp_axioms.benchmarks.commands.options import MethodOfRules, ModelFirst, Truncate
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
    method: MethodOfRules = "attnlrp",
    truncate: Truncate = False,
):
    """List every operation that a rule acts on, by layer, and every operation without a rule."""
    with mendable():
        check_names("--method", [method], WITH_RULES)
        texts = texts or []
        check_texts(model, texts)
        classifier = loaded(model, texts)
        with problems.status("planning"):
            from lrp_axioms.numeric import planning

            inputs, _ = inputs_of(classifier, texts, truncate=truncate)
            found = planning.plan(classifier.model, inputs, method)
    answer(**asdict(found))
    whole, short = (
        Text(x, no_wrap=True, overflow="ignore") for x in (str(found), planning.summary(found))
    )
    present([whole], [short])
    if found.refusal:
        with mendable():
            raise UnassignedOperation(found.refusal)
