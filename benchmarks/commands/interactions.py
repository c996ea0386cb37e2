"""``lrp-axioms interactions``: the words of a text that act together."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from lrp_axioms.axioms.extras import need
from lrp_axioms.benchmarks.commands.console import (
    check_files,
    check_names,
    console,
    loading,
    mendable,
)
from lrp_axioms.benchmarks.commands.explain import WORDS, model_and_texts, pair
from lrp_axioms.benchmarks.commands.options import (
    DTYPES,
    Column,
    Contrast,
    Dtype,
    Target,
    Truncate,
    completing,
)
from lrp_axioms.benchmarks.commands.output import answer, note, noting, present, write_each
from lrp_axioms.benchmarks.names import MODELS
from lrp_axioms.benchmarks.sources.faults import check_sentence

UNITS = ("word", "token", "sentence")
MANY = 100  # parts of a text with 4,950 pairs


def interactions(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar=WORDS,
            help="MODEL is 'embedded', 'embedded-lm', a folder, or a Hub id; one argument alone is "
            "a text for 'embedded'. TEXT is one text, or a question and its context.",
            autocompletion=completing(MODELS),
        ),
    ],
    target: Target = None,
    *,
    column: Column = None,
    contrast: Contrast = None,
    by: Annotated[
        str,
        typer.Option(
            help=f"The parts of the text: {', '.join(UNITS)}.", autocompletion=completing(UNITS)
        ),
    ] = UNITS[0],
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Estimate pairs, and leave out only the largest ones."),
    ] = False,
    budget: Annotated[
        int | None,
        typer.Option(help="With --estimate: pairs to leave out; default: as many as words."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the random quarters of the words.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Also write a page to this file.")] = None,
    png: Annotated[Path | None, typer.Option(help="Also write a picture to this file.")] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="Also write all pairs to this Parquet file.")
    ] = None,
    truncate: Truncate = False,
    dtype: Dtype = "float32",
    device: Annotated[str, typer.Option(help="'cpu', 'cuda', 'cuda:1', 'mps'.")] = "cpu",
):
    """Show which words of a text act together: pairs, groups, and how much they explain."""
    with mendable():
        model, texts = model_and_texts(words, MODELS[0])
        for text in texts:
            check_sentence(text)
        check_files(html=html, png=png, parquet=parquet)
        if parquet:
            need("--parquet", "pandas")
        check_names("--by", [by], UNITS)
        check_names("--dtype", [dtype], DTYPES)
        if budget is not None and not estimate:
            raise ValueError(f"--budget {budget}: exact pairs have none; add --estimate")
        if budget is not None and budget < 0:
            raise ValueError(f"--budget {budget}: pass a number of pairs, at least 0")
        if not 0 <= seed < 2**64:
            raise ValueError(f"--seed {seed}: pass a number, at least 0 and below 2**64")
        with loading("the model"):
            from lrp_axioms.benchmarks.commands import explained
            from lrp_axioms.benchmarks.commands.cutting import read
            from lrp_axioms.benchmarks.commands.targets import parse_target, said_of
            from lrp_axioms.numeric.pairs import interactions as interactions_of
            from lrp_axioms.numeric.results.words import named_units

            loaded = explained.load(words, model, device=device, dtype=dtype)
        explained.note_unknown(loaded, texts)
        if len(texts) > 1 and loaded.explains != "answer":
            raise ValueError(f"{len(texts)} texts: pass one at a time")
        text = pair(texts) if loaded.explains == "answer" else texts[0]
        inputs, tokens, cut = read(loaded, text, truncate=truncate)
        ids = inputs["input_ids"][0].tolist()
        parts = tokens if by == "token" else named_units(loaded.tokenizer, ids, by)[1]
        if len(parts) > MANY and not estimate:
            note(f"{len(parts)} {by}s: every pair takes a pass; --estimate takes far fewer")
        goal = parse_target(loaded, target, column, tokens, contrast=contrast)
        options = {"target": goal, "by": by, "seed": seed, "budget": budget}
        with noting(), loading("pairs"):
            found = interactions_of(
                loaded.model, loaded.tokenizer, inputs if cut else text,
                pairs="estimated" if estimate else "exact", **options,
            )  # fmt: skip
        label = found.target[0].tolist()
        said = said_of(loaded, label, tokens)
    why = f"for {explained.why_of(loaded, label, said)}" + f" ({cut})" * bool(cut)
    found = replace(found, model=model, said=why)
    wrote = write_each("--html", html, [found], lambda one: one.html().encode())
    wrote += write_each("--png", png, [found], lambda one: one.png())
    if parquet:
        with mendable(f"--parquet {parquet}"):
            found.to_parquet(parquet)
        wrote.append(parquet)
    answer(
        model=model, text=text, target=label, said=said, by=by, logit=found.logit[0].item(),
        parts=found.names, losses=found.relevance[0].tolist(), pairs=found.pairs.tolist(),
        by_loss=found.details["by_loss"].bool().tolist(), explained=found.explained,
        groups=[dict(zip(("depth", "parts", "loss"), x, strict=True)) for x in found.tree()],
        error=found.error, wrote=wrote,
    )  # fmt: skip
    present(found.terminal(console.width), _short(found), wrote=wrote)


def _short(found) -> Iterator[RenderableType]:
    """Yields a screen: the text, the largest pairs and groups, and how much they explain."""
    title, words, *_ = found.sections()[0].terminal()
    yield from (title, words, found.pair_table(6), found.group_table(8))
    yield Text(found.said_explained())
