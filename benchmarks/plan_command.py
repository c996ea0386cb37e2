"""``lrp-axioms plan``: which rule will act on which operation of a stock model."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from axioms.composites import UnassignedOperation
from benchmarks.audit_command import TEXT, picture
from benchmarks.console import check_files, console, loading, mendable, problems
from benchmarks.files import check_sentence


def plan(
    model: Annotated[str, typer.Argument(help="'embedded', a folder, or a Hub id.")],
    *,
    composite: Annotated[
        str,
        typer.Option("--composite", "--method", help="attnlrp, cp-lrp or gradient-x-input."),
    ] = "attnlrp",
    text: Annotated[str | None, typer.Option(help=f'To run it on; default: "{TEXT}"')] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write every operation to this file.")
    ] = None,
):
    """List every operation that a rule acts on, by layer, and what has no rule."""
    with mendable():
        check_files(json=json_file)
        if text is not None:
            check_sentence(text)
        with loading("the model"):
            from benchmarks import models
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
    if json_file:  # before anything is printed, which a reader may stop
        with mendable(f"--json {json_file}"):
            json_file.write_text(json.dumps(asdict(found), indent=1) + "\n", "utf-8")
    console.print(str(found), markup=False, highlight=False, soft_wrap=True)
    if json_file:
        console.print(f"wrote {json_file}", markup=False, soft_wrap=True)
    if found.refusal:
        with mendable():
            raise UnassignedOperation(found.refusal)
