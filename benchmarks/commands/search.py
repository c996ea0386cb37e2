"""``lrp-axioms search``: finds every rule of a template that obeys some axioms."""

from typing import Annotated

import typer
from rich.text import Text

from lrp_axioms.benchmarks.commands.console import check_names, mendable, problems
from lrp_axioms.benchmarks.commands.options import completing
from lrp_axioms.benchmarks.commands.output import answer, present

OPERATIONS = ("product", "sum")
SHORT = 3  # rules, of up to four lines each, that fit a screen beside the answer


def search(
    operation: Annotated[
        str, typer.Argument(help="product or sum.", autocompletion=completing(OPERATIONS))
    ],
    axioms: Annotated[
        list[str] | None,
        typer.Argument(help="Names in docs/AXIOMS.md, with commas; pass none to list them."),
    ] = None,
    *,
    degree: Annotated[
        int, typer.Option(min=0, max=3, help="Degree of P1, P2, Q in shares P1/Q and P2/Q.")
    ] = 1,
    limit: Annotated[
        int, typer.Option(min=1, max=10**6, help="Seconds until z3 leaves it undecided.")
    ] = 60,
):
    """Find every rule of a template that obeys some axioms, or prove that there is none."""
    given = (x.strip() for each in axioms or () for x in each.split(","))
    names = [x for x in dict.fromkeys(given) if x]
    with mendable():
        check_names("OPERATION", [operation], OPERATIONS)
        from lrp_axioms.axioms import kinds
        from lrp_axioms.axioms.search import solve, templates, words

        template = templates.Template(
            kinds.PRODUCT if operation == "product" else kinds.ADD, degree
        )
        known = templates.AXIOMS[template.operation]
        if not names:
            raise ValueError(f"AXIOMS: pass one or more of {', '.join(known)}")
        check_names("AXIOMS", names, known)
        with problems.status("searching"):
            found = solve.search(template, names, seconds=limit)
    said, scope = words.answer(found, limit), words.scope(template)
    answer(
        operation=operation, axioms=names, degree=degree, ends=found.ends, answer=said, scope=scope,
        numbers=words.numbers(found),
        rules=[
            [{"x": str(x), "y": str(y), "signs": signs} for (x, y), signs in by.items()]
            for by in map(words.by_shares, found.rules)
        ],
    )  # fmt: skip
    head = Text(f"{words.OPERATIONS[template.operation]}: {', '.join(names)}", style="bold")
    listed = [] if found.numbers else found.rules  # the answer has them all
    rules = [Text("- " + "\n  ".join(words.lines(rule))) for rule in listed]
    left = [Text(f"- ... and {len(rules) - SHORT} more")]
    tail = [Text(said), Text(""), Text(scope, style="dim")]
    present([head, *rules, *tail], [head, *rules[:SHORT], *left, *tail])
