"""The command line: ``lrp-axioms prove | explain | reproduce``."""

import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Proofs about LRP rules, and how far LRP is from Leave-One-Out on a real Transformer.",
)
console = Console()
problems = Console(stderr=True)

Model = Annotated[str, typer.Option(help="'embedded', a folder, or a Hugging Face Hub id.")]
Device = Annotated[str, typer.Option(help="'cpu', 'cuda', 'cuda:1', 'mps'.")]


@app.command()
def prove():
    """Run every proof, and print each statement with its verdict."""
    from benchmarks import reproduce, tables

    with _progress() as track:
        result = reproduce.theorems(track=track)
    console.print(tables.terminal(result))
    failed = [row for row in result.rows if row["verdict"] == "not established"]
    for row in failed:
        problems.print(f"{row['test']}\n{row['error']}", markup=False)
    raise typer.Exit(code=bool(failed))


@app.command()
def explain(
    model: Annotated[str, typer.Argument(help="'embedded', a folder, or a Hub id.")],
    text: Annotated[str, typer.Argument(help="The text to explain.")],
    method: Annotated[str, typer.Option(help="attnlrp, cp-lrp, loo, ...")] = "attnlrp",
    target: Annotated[int | None, typer.Option(help="Class; default: the predicted one.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page to this file.")] = None,
    device: Device = "cpu",
):
    """Colour the tokens of a text by their relevance for one class."""
    from benchmarks import models
    from numeric import attribute, render

    if not text.strip():
        raise ValueError(f'empty text {text!r}: pass a sentence, such as "a fine film"')
    _check_device(device)
    classifier = models.load(model, device=device)
    inputs = classifier.tokenizer([text], return_tensors="pt")
    a = attribute(classifier.model, inputs, method, target)
    tokens = classifier.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    relevance = a.relevance[0].tolist()
    title = f"{a.method}: why {classifier.label(int(a.target[0]))!r}?"
    caption = (
        f"Logit {a.logit[0]:+.4f} = relevance of the tokens {sum(relevance):+.4f} + residual "
        f"{a.residual[0]:+.4f} (absorbed or lost on the way, or not additive)."
    )
    line, table = render.terminal(tokens, relevance)
    for part in (f"[bold]{escape(title)}[/]", line, table, escape(caption)):
        console.print(part)
    if html:
        html.write_text(render.html(tokens, relevance, title=title, caption=caption), "utf-8")
        console.print(f"wrote {html}", markup=False)


@app.command()
def reproduce(
    model: Model = "embedded",
    dataset: Annotated[str, typer.Option(help="embedded, sst2 or imdb.")] = "embedded",
    data_dir: Annotated[Path | None, typer.Option(help="Folder to read sst2 or imdb from.")] = None,
    examples: Annotated[int | None, typer.Option(help="Only the first N texts.")] = None,
    device: Device = "cpu",
    output: Annotated[Path, typer.Option(help="Where results are written.")] = Path("results"),
):
    """Prove the theorems, and measure Tables 1 and 2, Figure 2 and time; write a report."""
    from benchmarks import data, models, tables
    from benchmarks.reproduce import reproduce as run

    _check_device(device)
    with _progress() as track:
        texts = data.load(dataset, data_dir=data_dir).first(examples)
        classifier = models.load(model, device=device)
        for result in run(classifier, texts, output=output, track=track):
            console.print(tables.terminal(result))
            for note in result.notes:
                console.print(f"  {note}", markup=False)
    console.print(f"\nwrote {output / 'report.html'} and the tables beside it", markup=False)


class _progress:
    """One bar per experiment, on stderr, gone when done; silent when stderr is no terminal."""

    def __enter__(self):
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=problems, transient=True)
        self.bar.start()
        return self.track

    def track(self, items: Iterable, description: str) -> Iterable:
        items = list(items)
        task = self.bar.add_task(description, total=len(items))
        for item in items:
            yield item
            self.bar.advance(task)
        self.bar.remove_task(task)

    def __exit__(self, *_):
        self.bar.stop()


def _check_device(device):
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} is not available here ({error}); use cpu") from error


def main() -> None:
    """Runs a command; what a user can mend is one message and exit code 2, without a traceback."""
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        app()
    except (ValueError, TypeError, LookupError, OSError) as error:
        problems.print(f"[bold red]error:[/] {escape(str(error))}")
        sys.exit(2)


if __name__ == "__main__":
    main()
