"""``python -m benchmarks.research.other_shapes.compare MODEL ...`` compares methods by passes.

It prints r with Leave-One-Out by method, one column for each model, over all and over content
tokens.  The output keeps a folder of measurements for each model; they are not repeated.
"""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lrp_axioms.benchmarks.experiments import rows, text
from lrp_axioms.benchmarks.experiments.maps import Measured, measured
from lrp_axioms.benchmarks.experiments.record import interval, number
from lrp_axioms.benchmarks.experiments.trade_off import trade_off
from lrp_axioms.benchmarks.sources import data, models

ROWS = (
    rows.LOO,
    *rows.LRP,
    "table2-{}-mask-relevance",
    "tradeoff-{}-mask-relevance",
    "tradeoff-{}-budgeted-loo",
)
"""Rows of the table "tradeoff" that take few passes, and exact Leave-One-Out."""


def measure(
    model: str,
    texts: data.Texts,
    output: Path,
    *,
    names: Sequence[str] = ROWS,
) -> Measured:
    """Measures rows on one model, without curves."""
    classifier = models.load(model)
    found = []
    for name in names:
        row = rows.load(name.format(texts.config))
        row = replace(row, dataset=texts.name, curves=False)
        found.append(text.run(row, classifier, texts, output=output / Path(model).name))
    return measured(found)


def agreement(found: dict[str, Measured]) -> Iterator[str]:
    """Yields lines of Markdown: r by method and model, with 95 % bootstrap intervals, and notes.

    r is a mean over all tokens, and in the line below over content tokens; passes are the first
    model's.
    """
    results = {model: trade_off(of_model) for model, of_model in found.items()}
    tables = {model: {row["method"]: row for row in x.rows} for model, x in results.items()}
    yield f"| method | passes | tokens | {' | '.join(tables)} |"
    yield f"|---|--:|---|{'--:|' * len(tables)}"
    for method, row in next(iter(tables.values())).items():
        for tokens in ("all", "content"):
            cells = [interval(f"r {tokens}")(table[method]) for table in tables.values()]
            shown = [method, number("passes", 1)(row), tokens, *cells]
            yield f"| {' | '.join(shown)} |"
    for model, result in results.items():
        yield from ("", f"{model}: {' '.join(result.notes)}")


def main(argv: Sequence[str] | None = None) -> None:
    """Measures model by model, and prints the table of all."""
    parser = ArgumentParser(description=main.__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--dataset", choices=data.DATASETS, default="embedded")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--examples", type=int, help="default: all texts")
    parser.add_argument("--output", type=Path, default=Path("results/judges"))
    options = parser.parse_args(argv)
    texts = data.load(options.dataset, data_dir=options.data_dir).first(options.examples)
    found = {Path(model).name: measure(model, texts, options.output) for model in options.models}
    for line in agreement(found):
        print(line)


if __name__ == "__main__":
    main()
