"""``lrp-axioms explain``: the tokens of texts, coloured by their relevance for one logit."""

import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lrp_axioms.benchmarks.commands import generated
from lrp_axioms.benchmarks.commands.console import (
    check_files,
    check_names,
    console,
    loading,
    mendable,
)
from lrp_axioms.benchmarks.commands.options import (
    DTYPES,
    Column,
    Contrast,
    Dtype,
    Methods,
    Target,
    Truncate,
    completing,
    names_of,
)
from lrp_axioms.benchmarks.commands.output import answer, note, noting, present, write_each
from lrp_axioms.benchmarks.names import MODELS
from lrp_axioms.benchmarks.sources.faults import check_sentence
from lrp_axioms.benchmarks.sources.files import lines
from lrp_axioms.numeric.methods.catalogue import METHODS, WITH_RULES
from lrp_axioms.numeric.spelling import LONGEST, some

WORDS = "[MODEL] TEXT"  # ..., says Typer
BUDGETED = ("loo", "budgeted-loo")


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar=WORDS,
            help="MODEL is 'embedded', 'embedded-lm', a folder, or a Hub id; one argument alone is "
            "a text for 'embedded', or with --generate or --span for 'embedded-lm'. TEXT is what "
            "to explain, once or several times, or a question and its context; - reads standard "
            "input, one text per line.",
            autocompletion=completing(MODELS),
        ),
    ],
    method: Methods = "attnlrp",
    target: Target = None,
    *,
    column: Column = None,
    span: Annotated[
        str | None,
        typer.Option(help="Columns FIRST:END of the text itself, each from what precedes it."),
    ] = None,
    generate: Annotated[
        int | None,
        typer.Option(help="Generate up to N tokens and explain each."),
    ] = None,
    reply: Annotated[
        str | None,
        typer.Option("--answer", help="Explain this text, as if the model had written it."),
    ] = None,
    chat: Annotated[
        bool,
        typer.Option("--chat", help="With --generate or --answer: TEXT is a message of a user."),
    ] = False,
    by: Annotated[
        str,
        typer.Option(
            help="With --generate or --answer: token, word, sentence, or segment.",
            autocompletion=completing(generated.UNITS),
        ),
    ] = "token",
    contrast: Contrast = None,
    segment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PART", help="With --generate or --answer: a part of the text; repeatable."
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="With --generate or --answer: a folder for finished rows, from which a killed "
            "call goes on; for several texts, it holds text-1, text-2 and so on, in a folder for "
            "each of several methods."
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="With --method loo: at most N forward passes for one text. "
            "With --method budgeted-loo: N tokens to leave out."
        ),
    ] = None,
    by_layer: Annotated[
        bool, typer.Option("--layers", help="Also the relevance of every token in every layer.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write a page to this file; with --generate, one for each text."),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            help="Also write a picture to this file, with --layers of layers; for several texts, "
            "files with numbers, such as why-1.png."
        ),
    ] = None,
    truncate: Truncate = False,
    dtype: Dtype = "float32",
    device: Annotated[str, typer.Option(help="'cpu', 'cuda', 'cuda:1', 'mps'.")] = "cpu",
):
    """Colour the tokens of texts by their relevance for one class, or for the next token."""
    with mendable():
        writes = generated.writes(generate, reply, chat=chat)
        default = MODELS[writes or span is not None]
        model, texts = model_and_texts(words, default)
        from lrp_axioms.benchmarks.commands.explained import (
            each,
            explain_text,
            load,
            note_unknown,
            summary,
        )
        from lrp_axioms.benchmarks.commands.targets import parse_target

        called = "line" if words[-1] == "-" else "text"
        each(texts, check_sentence, called)
        check_files(html=html, png=png)
        if writes:
            apart = {"--target": target, "--column": column, "--span": span, "--layers": by_layer}
            generated.check(by, apart)
        elif by != "token":
            raise ValueError(f"--by {by}: only with --generate and --answer; leave it out")
        named = generated.parse_segments(segment or [], by, written=writes, chat=chat)
        generated.check_keep(keep, contrast, written=writes)
        columns = None if span is None else span_of(span, target, column, contrast)
        option, known = ("--layers --method", WITH_RULES) if by_layer else ("--method", METHODS)
        methods = names_of(option, [method], known)
        budgets = budgets_of(methods, budget)
        check_names("--dtype", [dtype], DTYPES)
    if writes:
        options = {"contrast": contrast, "segments": named, "keep": keep}
        options |= {"reply": reply, "chat": chat, "budgets": budgets}
        options |= {"by": by, "methods": methods, "html": html, "png": png, "device": device}
        options |= {"dtype": dtype, "truncate": truncate}
        return generated.explain(model, texts, generate, called=called, **options)
    with mendable():
        with loading("the model"):
            from lrp_axioms.numeric.models.places import numbered_layers

            loaded = load(words, model, device=device, dtype=dtype)
        note_unknown(loaded, texts)
        if columns and loaded.explains != "next token":
            raise ValueError(f"--span {span}: only language models predict a text; leave it out")
        if loaded.explains == "answer":
            texts = [pair(texts)]
        at = {"at": numbered_layers(loaded.model)} if by_layer else {}
        goal = partial(parse_target, loaded, target, column, contrast=contrast)
        given = {"target": goal, "columns": columns, "truncate": truncate}
        found = []
        with noting():
            for method in methods:
                own = at | budgets.get(method, {})
                one = partial(explain_text, loaded, method=method, options=own, **given)
                found += each(texts, one, called)
    from lrp_axioms.numeric.results.result import page

    # Before anything is printed, which a reader may stop.
    of_all = lambda one: page([x.section for x in one], *(x.attribution for x in one)).encode()
    wrote = write_each("--html", html, [found], of_all)
    wrote += write_each("--png", png, found, lambda one: one.png())
    answer(model=model, method=",".join(methods), texts=[one.facts() for one in found], wrote=wrote)
    parts = [part for one in found for part in one.parts(console.width)]
    present(parts, parts if by_layer else summary(found), wrote=wrote)


def budgets_of(methods: Sequence[str], budget: int | None) -> dict[str, dict[str, int]]:
    """Returns the budget of each method that has one; ValueError where no method has one."""
    if budget is None:
        return {}
    if not {*methods} & {*BUDGETED}:
        raise ValueError(
            f"--budget {budget}: only --method {' and '.join(BUDGETED)} have a budget, not "
            f"{', '.join(methods)}"
        )
    if budget < 1:
        raise ValueError(f"--budget {budget}: pass a number of forward passes, at least 1")
    return {method: {"budget": budget} for method in methods if method in BUDGETED}


def model_and_texts(words: list[str], default: str) -> tuple[str, list[str]]:
    """Returns the model and the texts that a user names, or ``default`` and one text.

    Raises ValueError for a model without a text, and for several texts without a model.
    """
    model, *texts = words
    if not texts:
        if model in MODELS or os.path.isdir(model):
            raise ValueError(f"{model!r} is a model; pass a text after it")
        note(f"no model is given: {default} is used")
        model, texts = default, words
    elif is_text(model):
        raise ValueError(
            f"{model!r} is no model, and several texts need one before them: pass {default} first"
        )
    if "-" in texts:
        if texts != ["-"]:
            raise ValueError("- stands for all texts, on standard input; pass no other text")
        if sys.stdin is None:  # as after <&-
            raise ValueError("standard input is closed; pass one text per line")
        given, letters = [], 0
        for _, text in lines(sys.stdin.buffer):
            given.append(text)
            letters += len(text) + 1
            if letters > LONGEST:
                raise ValueError(
                    f"standard input has more than {LONGEST} letters; write the texts to a file "
                    "and pass it to `lrp-axioms attribute`"
                )
        texts = [text for text in given if text.strip()]
        if blank := [n for n, text in enumerate(given, start=1) if not text.strip()]:
            note(f"blank lines of standard input are skipped, and not counted: {some(blank)}")
        if not texts:
            raise ValueError("standard input is empty; pass one text per line")
    return model, texts


def is_text(model: str) -> bool:
    """Whether an argument in the model's place can only be a text."""
    return bool(re.search(r"\s", model)) and not os.path.exists(model)  # Path raises for long texts


def pair(texts: Sequence[str]) -> tuple[str, str]:
    """Returns a question and its context; ValueError unless there are two texts."""
    if len(texts) != 2:
        raise ValueError(
            "the model finds the answer to a question in a context: pass the question and then the "
            f"context, 2 texts, not {len(texts)}"
        )
    question, context = texts
    return question, context


def span_of(bounds: str, *others: str | int | None):
    """Parses --span FIRST:END to a function from a text's number of tokens to its columns.

    ``others`` are --target, --column and --contrast.
    Raises ValueError for a malformed span, or beside another target; the function raises it for a
    span outside the text.
    """
    if any(x is not None for x in others):
        raise ValueError(f"--span {bounds}: leave --target, --column and --contrast out")
    found = re.fullmatch(r"(-?\d{1,9}):(-?\d{1,9})?", bounds)
    if not found:
        raise ValueError(f"--span {bounds}: pass FIRST:END, such as 3:6, or -3: for the last three")
    first, end = int(found[1]), int(found[2] or 0)

    def columns(count: int) -> range:
        start, stop = first + count * (first < 0), end + count * (end < 0 or not end)
        if not 1 <= start < stop <= count:
            raise ValueError(
                f"--span {bounds}: the columns are 1 to {count - 1}; pass FIRST:END, with END "
                "after the last one"
            )
        return range(start, stop)

    return columns
