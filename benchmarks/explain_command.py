"""``lrp-axioms explain``: the tokens of one text, coloured by their relevance for one logit."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from benchmarks.console import check_files, console, loading, mendable
from benchmarks.files import check_sentence


def explain(
    model: Annotated[str, typer.Argument(help="'embedded', a folder, or a Hub id.")],
    text: Annotated[str, typer.Argument(help="The text to explain.")],
    method: Annotated[
        str,
        typer.Option(
            help="attnlrp, cp-lrp, gradient-x-input, integrated-gradients, attention-rollout, loo."
        ),
    ] = "attnlrp",
    target: Annotated[
        int | None,
        typer.Option(help="Class, tag, or id of a token; default: the predicted one."),
    ] = None,
    *,
    column: Annotated[
        int | None, typer.Option(min=0, help="Which token's tag or prediction, from 0.")
    ] = None,
    by_layer: Annotated[
        bool, typer.Option("--layers", help="Also the relevance of every token in every layer.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page to this file.")] = None,
    png: Annotated[
        Path | None, typer.Option(help="With --layers: also write a picture of it to this file.")
    ] = None,
    device: Annotated[str, typer.Option(help="'cpu', 'cuda', 'cuda:1', 'mps'.")] = "cpu",
):
    """Colour the tokens of a text by their relevance for one class, or for the next token."""
    with mendable():
        check_sentence(text)
        if png and not by_layer:
            raise ValueError(f"--png {png} would be a picture of layers; pass --layers too")
        check_files(html=html, png=png)
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
        target = explained.target(target, column, tokens)
        a = attribute(explained.model, inputs, method, target, **at)
    relevance = a.relevance[0].tolist()
    shifted = getattr(explained.model.config, "is_encoder_decoder", False)
    maps = layer_maps(a, tokens, shifted=shifted)
    of = "" if explained.explains == "class" else f"the {explained.explains} "
    title = f"{a.method}: why {of}{explained.said(a.target[0].tolist(), tokens)!r}?"
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


def _caption(a, total):
    if a.method == "attention-rollout":
        return "Shares of attention, which are not logits: they sum to 1 whatever the model says."
    return (
        f"Logit {a.logit[0]:+.4f} = relevance of the tokens {total:+.4f} + residual "
        f"{a.residual[0]:+.4f} (absorbed or lost on the way, or not additive)."
    )
