"""``lrp-axioms methods`` lists the methods, and ``vocabulary`` the tokens of a model."""

from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from lrp_axioms.benchmarks.commands.console import loading, mendable
from lrp_axioms.benchmarks.commands.options import completing
from lrp_axioms.benchmarks.commands.output import LINES, answer, first_lines, present
from lrp_axioms.benchmarks.names import MODELS
from lrp_axioms.numeric.methods.catalogue import METHODS


def methods():
    """List the attribution methods with their cost, their needs, and the sum of their relevance."""
    columns = ("name", "cost", "needs", "conserves", "source")
    facts = lambda each: {key: getattr(each, key) for key in (*columns, "options")}
    answer(methods=[facts(each) for each in METHODS.values()])
    short = [first_lines(_named(each, each.cost), 2) for each in METHODS.values()]
    present([line for each in METHODS.values() for line in _about(each)], short)


def _named(method, said):
    return Text.assemble((method.name, "bold"), f": {said}")


def _about(method):
    yield _named(method, method.source)
    options = ", ".join(f"{name}={default!r}" for name, default in method.options.items())
    needs, conserves = f"{method.cost}; needs {method.needs}", f"conserves: {method.conserves}"
    for said in (needs, conserves, f"options: {options}"):
        yield Padding(Text(said), (0, 0, 0, 2))


def vocabulary(
    model: Annotated[
        str,
        typer.Argument(
            help="'embedded', 'embedded-lm', 'embedded-english', a folder, or a Hub id.",
            autocompletion=completing(MODELS),
        ),
    ] = "embedded",
):
    """Print the tokens that a model's tokenizer knows, in the order of their ids."""
    with mendable(), loading("the tokenizer"):
        from lrp_axioms.benchmarks.sources import models

        tokens = models.vocabulary(model)
    answer(model=model, tokens=tokens)
    head = Text(f"{model}: {len(tokens)} tokens", style="bold")
    words = Text("  ".join(tokens))
    present([head, words], [head, first_lines(words, LINES - 4)])
