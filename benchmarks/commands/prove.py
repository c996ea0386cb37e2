"""``lrp-axioms prove``: every verdict, one theorem in full, or the verdicts on your own rules."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lrp_axioms.axioms.extras import need
from lrp_axioms.benchmarks.commands.console import (
    bars,
    complain,
    console,
    each_with_bars,
    invocation,
    mendable,
    track,
)
from lrp_axioms.benchmarks.commands.output import answer, first_lines, of_result, present


def prove(
    *,
    rules: Annotated[
        Path | None,
        typer.Argument(help="A Python file of your own rules, to judge these; it is executed."),
    ] = None,
    show: Annotated[
        str | None, typer.Option(help="Only this theorem, such as 10, or statement, such as 10b.")
    ] = None,
    latex: Annotated[bool, typer.Option(help="With --show: print LaTeX.")] = False,
    limit: Annotated[
        int,
        typer.Option(
            min=1, max=10**6, help="With a file: seconds for a verdict; a slower one is undecided."
        ),
    ] = 60,
    certificates: Annotated[
        Path | None,
        typer.Option(
            help="A new folder for every verdict as data, for `lrp-axioms check`.", file_okay=False
        ),
    ] = None,
):
    """Run every proof and print the verdicts, or one theorem in full, or judge your own rules."""
    if rules or show is not None or latex:
        with mendable():
            if certificates:
                raise ValueError("--certificates is for all theorems; pass it alone")
            _prove_one(rules, show, latex=latex, limit=limit)
        return
    with mendable():
        need("lrp-axioms prove", "pytest")
        if certificates and certificates.exists() and any(certificates.iterdir()):
            raise ValueError(f"--certificates {certificates}: it is not empty; pass a new folder")
    from lrp_axioms.benchmarks.experiments import theorems

    place = f"--certificates {certificates}" if certificates else ""
    with mendable(place, catch=OSError):
        result = theorems.theorems(track=track, certificates=certificates)
    answer(theorems=result.rows, notes=result.notes, wrote=[certificates])
    present(*of_result(result, whole=True), wrote=[certificates])
    failed = [row for row in result.rows if row["verdict"] == "not established"]
    for row in failed:
        complain(f"{row['test']}\n{row['error']}")
    raise typer.Exit(code=bool(failed))


def _prove_one(rules: Path | None, show: str | None, *, latex: bool, limit: int):
    if rules and (show is not None or latex):
        raise ValueError(f"--show and --latex print a theorem, {rules} holds rules; pass one only")
    if rules:
        from lrp_axioms.benchmarks.commands.judging import judge_rules

        every, shown = [], bars()
        verdicts = shown.add_task(rules.name, total=None)

        def started(done, total, name):
            shown.update(verdicts, completed=done, total=total, description=name)

        results = judge_rules(rules, limit, started)
        try:
            for rule in each_with_bars(results, shown, total=None, description="rules"):
                if invocation.full:
                    console.out("\n" * bool(every) + rule.text(), highlight=False, end="")
                else:
                    lines = (first_lines(Text(x), 4) for x in rule.summary())
                    heading = Text("\n" * bool(every) + rule.heading, style="bold")
                    present([heading, *lines])
                every.append(asdict(rule))
        finally:  # an error about some rules takes no verdicts from others
            if every:
                answer(rules=every)
        if not invocation.full:
            present([Text("--full prints every verdict and its witness.", style="dim")])
        return
    if show is None:
        raise ValueError("--latex prints one theorem; pass its number as --show N too")
    need("lrp-axioms prove", "pytest")
    from lrp_axioms.axioms.pages import latex as printed
    from lrp_axioms.axioms.pages import show as pages

    page = pages.page(show)
    text = printed.latex(page) if latex else pages.text(page)
    answer(theorem=show, text=text)
    console.out(text, highlight=False, end="")
    if any(verdict.error for verdict in page.verdicts):
        raise typer.Exit(code=1)
