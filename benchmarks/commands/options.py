"""Options and arguments that several commands have."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from lrp_axioms.benchmarks.commands.console import check_names
from lrp_axioms.benchmarks.names import MODELS
from lrp_axioms.numeric.methods.catalogue import METHODS, WITH_LEMMAS, WITH_RULES


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Completes the beginning of an argument, for a shell."""
    known = list(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


def names_of(option: str, given: Iterable[str], known: Iterable[str]) -> list[str]:
    """Splits names at commas; raises ValueError that lists all names that are not ``known``."""
    names = [name.strip() or "''" for each in given for name in each.split(",")]
    check_names(option, names, known)
    return list(dict.fromkeys(names))


MODEL = {"help": "'embedded', a folder, or a Hub id.", "autocompletion": completing(MODELS)}
DTYPES = ("float32", "float64", "bfloat16", "float16")
DESCRIBED = "`lrp-axioms methods` describes them."

Model = Annotated[str, typer.Option(**MODEL)]
ModelFirst = Annotated[str, typer.Argument(**MODEL)]


def _methods(known: Iterable[str]):
    names = list(known)
    said = f"One or several, with commas: {', '.join(names)}; {DESCRIBED}"
    return Annotated[str, typer.Option(help=said, autocompletion=completing(names))]


Methods = _methods(METHODS)
MethodsOfRules = _methods(WITH_RULES)
MethodsOfAudits = _methods(WITH_LEMMAS)

Target = Annotated[
    str | None,
    typer.Option(
        help="Class or tag, by number or name; a token, by id or text; the words of an answer. "
        "Default: what is predicted."
    ),
]
Column = Annotated[
    int | None,
    typer.Option(min=0, help="Which token's tag or prediction, from 0; where an answer begins."),
]
Contrast = Annotated[
    str | None,
    typer.Option(
        help="Why not this class, tag or token; with --generate and --answer, why not this text."
    ),
]
Address = Annotated[
    str | None, typer.Option(help="With --engine ray: its HOST:PORT; default: this machine.")
]
Device = Annotated[
    str | None, typer.Option(help="As in explain; default: cpu, or the GPUs of a cluster.")
]
Dtype = Annotated[
    str,
    typer.Option(help=f"Of the model: {', '.join(DTYPES)}.", autocompletion=completing(DTYPES)),
]
Truncate = Annotated[
    bool,
    typer.Option("--truncate", help="Cut a text that is longer than the model's positions."),
]
Page = Annotated[Path | None, typer.Option(help="Also write a page to this file.")]
