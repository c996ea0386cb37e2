"""``lrp-axioms explain``: the tokens of one text, coloured by their relevance for one logit."""

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from benchmarks import generated
from benchmarks.console import Column, Target, check_files, console, loading, mendable
from benchmarks.files import check_sentence


def explain(
    model: Annotated[str, typer.Argument(help="'embedded', 'embedded-lm', a folder, or a Hub id.")],
    text: Annotated[str, typer.Argument(help="The text to explain.")],
    method: Annotated[
        str,
        typer.Option(
            help="attnlrp, cp-lrp, gradient-x-input, integrated-gradients, attention-rollout, loo."
        ),
    ] = "attnlrp",
    target: Target = None,
    *,
    column: Column = None,
    span: Annotated[
        str | None,
        typer.Option(help="Columns FIRST:END of the text itself, each from what precedes it."),
    ] = None,
    generate: Annotated[
        int | None,
        typer.Option(help="Explain up to so many tokens that a language model goes on with."),
    ] = None,
    by: Annotated[str, typer.Option(help="With --generate: token, word, or sentence.")] = "token",
    by_layer: Annotated[
        bool, typer.Option("--layers", help="Also the relevance of every token in every layer.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page to this file.")] = None,
    png: Annotated[
        Path | None, typer.Option(help="With --layers or --generate: also write a picture of it.")
    ] = None,
    device: Annotated[str, typer.Option(help="'cpu', 'cuda', 'cuda:1', 'mps'.")] = "cpu",
):
    """Colour the tokens of a text by their relevance for one class, or for the next token."""
    with mendable():
        check_sentence(text)
        check_files(html=html, png=png)
        if generate is not None:
            apart = {"--target": target, "--column": column, "--span": span, "--layers": by_layer}
            generated.check(by, apart)
        elif png and not by_layer:
            raise ValueError(f"--png {png} would be a picture of layers; pass --layers too")
    if generate is not None:
        options = {"by": by, "method": method, "html": html, "png": png, "device": device}
        return generated.explain(model, text, generate, **options)
    with mendable():
        with loading("the model"):
            from benchmarks import models
            from numeric import attribute, render
            from numeric.attribution import composite_of
            from numeric.fast.places import numbered_layers
            from numeric.layer_maps import layer_maps, terminal

            if by_layer:  # of a method with rules
                composite_of(method, None)
            models.check_device(device)
            explained = models.load(model, device=device)
        inputs = explained.tokenizer([text], return_tensors="pt")
        at = {"at": numbered_layers(explained.model)} if by_layer else {}
        tokens = explained.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
        if span is None:
            target = explained.target(target, column, tokens)
        else:
            target = span_of(span, target, column)
        a = attribute(explained.model, inputs, method, target, **at)
    relevance = a.relevance[0].tolist()
    shifted = getattr(explained.model.config, "is_encoder_decoder", False)
    maps = layer_maps(a, tokens, shifted=shifted)
    of = "" if explained.explains == "class" else f"the {explained.explains} "
    said = explained.said(a.target[0].tolist(), tokens) if span is None else ""
    title = f"{a.method}: why " + (f"{of}{said!r}?" if span is None else f"the tokens {span}?")
    caption = _caption(a, sum(relevance))
    if html:  # before anything is printed, which a reader may stop
        with mendable(f"--html {html}"):
            page = render.html(tokens, relevance, title=title, caption=caption, maps=maps)
            html.write_text(page, "utf-8")
    if png:
        from benchmarks.figures import layers

        with mendable(f"--png {png}"):
            png.write_bytes(layers(maps, title))
    console.print(Text(title, style="bold"))
    for part in render.terminal(tokens, relevance):
        console.print(part)
    console.print(caption, markup=False, highlight=False)
    for part in terminal(maps, console.width):
        console.print(part)
    for path in filter(None, (html, png)):
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def span_of(bounds: str, target: int | None, column: int | None):
    """The target FIRST:END.  Raises ValueError for other texts, and beside another target."""
    from numeric.targets import span

    if target is not None or column is not None:
        raise ValueError(f"--span {bounds}: leave --target and --column out")
    found = re.fullmatch(r"(-?\d+):(-?\d*)", bounds)
    if not found:
        raise ValueError(f"--span {bounds}: pass FIRST:END, such as 3:6, or -3: for the last three")
    return span(int(found[1]), int(found[2]) if found[2] else None)


def _caption(a, total):
    if a.method == "attention-rollout":
        return "Shares of attention, which are not logits: they sum to 1 whatever the model says."
    return (
        f"Logit {a.logit[0]:+.4f} = relevance of the tokens {total:+.4f} + residual "
        f"{a.residual[0]:+.4f} (absorbed or lost on the way, or not additive)."
    )
