"""The command line: ``lrp-axioms explain | attribute | audit | plan | prove | reproduce ...``."""

import atexit
import gc
import logging
import os
import sys
import warnings
from importlib.metadata import version
from typing import Annotated

import typer

from lrp_axioms.benchmarks.app.command import serve
from lrp_axioms.benchmarks.commands.attribute import attribute
from lrp_axioms.benchmarks.commands.audit import audit
from lrp_axioms.benchmarks.commands.check import check
from lrp_axioms.benchmarks.commands.console import (
    Formatter,
    Terminal,
    console,
    invocation,
    problems,
    spell_what_cannot_be_encoded,
    tell,
    whole_program,
)
from lrp_axioms.benchmarks.commands.evaluate import evaluate
from lrp_axioms.benchmarks.commands.explain import explain
from lrp_axioms.benchmarks.commands.interactions import interactions
from lrp_axioms.benchmarks.commands.lists import methods, vocabulary
from lrp_axioms.benchmarks.commands.output import EXIT_CODES, Once, with_shared_options
from lrp_axioms.benchmarks.commands.plan import plan
from lrp_axioms.benchmarks.commands.prove import prove
from lrp_axioms.benchmarks.commands.reproduce import report, reproduce
from lrp_axioms.benchmarks.commands.search import search
from lrp_axioms.numeric.spelling import printable

FORMAT = warnings.formatwarning
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
    help="Proofs about LRP rules, and how far LRP is from Leave-One-Out on a real Transformer.",
)


def _version(wanted: bool):  # noqa: FBT001 as Typer calls it
    if wanted:
        console.print(f"lrp-axioms {version('lrp-axioms')}", highlight=False)
        raise typer.Exit


@app.callback()
def _program(
    *,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
):
    pass


COMMANDS = (
    explain, interactions, attribute, audit, evaluate, plan, methods, vocabulary, prove, search,
    check, reproduce, report, serve,
)  # fmt: skip
for each in COMMANDS:
    app.command(epilog=EXIT_CODES, cls=Once)(with_shared_options(each))


def main() -> None:
    """Runs a command."""
    spell_what_cannot_be_encoded()
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and not 0 < int(columns[:5]) < 10000:  # no usable width
        del os.environ["COLUMNS"]
        console.width = problems.width = 80
    for library in ("TRANSFORMERS", "HF_HUB", "DATASETS"):  # our errors say it in one message
        os.environ.setdefault(f"{library}_VERBOSITY", "error")
    atexit.register(gc.freeze)  # else the end takes a second, to look for garbage once more
    handler = logging.StreamHandler()  # writes to stderr
    handler.setFormatter(Formatter())
    logging.getLogger("lrp_axioms").handlers = [handler]
    if not all(map(str.isprintable, sys.argv)):
        from typer import rich_utils  # slow to import; prints arguments unchanged

        rich_utils.Console = Terminal
    warnings.formatwarning = lambda *said: printable(FORMAT(*said))
    console.quiet = problems.quiet = False  # as a command before this one left them
    with whole_program():
        if "--json" in sys.argv[1:]:
            sys.exit(_with_json())
        app()


def _with_json() -> int:
    """Runs a command; errors of the command line are printed as JSON, too."""
    invocation.begin("", json=True, quiet=False, full=False)
    try:
        return app(standalone_mode=False) or 0
    except Exception as error:
        if not hasattr(error, "format_message"):  # it is no error of the command line
            raise
        tell(error.format_message())
        return error.exit_code


if __name__ == "__main__":
    main()
