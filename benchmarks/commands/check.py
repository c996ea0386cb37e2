"""``lrp-axioms check``: certificates of the theorems, confirmed without SymPy."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lrp_axioms.axioms.check import check as checked
from lrp_axioms.benchmarks.commands.console import complain, mendable
from lrp_axioms.benchmarks.commands.output import answer, present


def check(
    folder: Annotated[
        Path, typer.Argument(help="What `lrp-axioms prove --certificates` wrote.", file_okay=False)
    ],
):
    """Confirm every certificate of a folder by arithmetic that shares no code with the proofs."""
    with mendable():
        if not (folder / "index.json").is_file():
            raise ValueError(
                f"{folder} has no index.json; pass a folder that `lrp-axioms prove --certificates` "
                "wrote"
            )
        errors, summary = checked(folder)
    answer(errors=errors, summary=summary)
    for error in errors:
        complain(error)
    present([Text(summary)])
    raise typer.Exit(code=bool(errors))
