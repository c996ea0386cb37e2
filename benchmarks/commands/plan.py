"""``lrp-axioms plan``: which rule will act on which operation of a stock model."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from axioms.composites import UnassignedOperation
from benchmarks.commands.audit import TEXT, picture
from benchmarks.commands.console import check_names, loading, mendable, problems
from benchmarks.commands.output import answer, completing, present
from benchmarks.names import MODELS
from benchmarks.sources.faults import check_sentence
from numeric.methods.catalogue import WITH_RULES


def plan(
    model: Annotated[
        str,
        typer.Argument(
            help="'embedded', a folder, or a Hub id.", autocompletion=completing(MODELS)
        ),
    ],
    *,
    composite: Annotated[
        str,
        typer.Option(
            "--composite",
            "--method",
            help="attnlrp, cp-lrp or gradient-x-input.",
            autocompletion=completing(WITH_RULES),
        ),
    ] = "attnlrp",
    text: Annotated[str | None, typer.Option(help=f'To run it on; default: "{TEXT}"')] = None,
):
    """List every operation that a rule acts on, by layer, and what has no rule."""
    with mendable():
        check_names("--composite", [composite], WITH_RULES)
        if text is not None:
            check_sentence(text)
        with loading("the model"):
            from benchmarks.sources import models
            from numeric import planning

            of_images = models.takes_images(model)
            if of_images and text is not None:
                raise ValueError(f"{model} takes images, not the text {text!r}; leave it out")
            classifier = models.load_for_images(model) if of_images else models.load(model)
        with problems.status("planning"):
            inputs = (
                classifier.processor(picture(), return_tensors="pt")
                if of_images
                else classifier.tokenizer([text or TEXT], return_tensors="pt")
            )
            found = planning.plan(classifier.model, inputs, composite)
    answer(**asdict(found))
    whole, short = (
        Text(x, no_wrap=True, overflow="ignore") for x in (str(found), planning.summary(found))
    )
    present([whole], [short])
    if found.refusal:
        with mendable():
            raise UnassignedOperation(found.refusal)
