"""What ``lrp-axioms explain --generate`` says of the text that a language model goes on with."""

from benchmarks.console import console, loading, mendable

UNITS = ("token", "word", "sentence")


def check(by: str, apart: dict[str, object]) -> None:
    """Raises ValueError for an unknown unit, and for options that are of given texts, ``apart``."""
    if by not in UNITS:
        raise ValueError(f"--by {by}: pass {', '.join(UNITS)}")
    given = [name for name, value in apart.items() if value not in (None, False)]
    if given:
        raise ValueError(
            f"{', '.join(given)}: not with --generate, which explains every token that is written"
        )


def explain(name, text, count, *, by, method, html, png, device) -> None:
    """Explains up to ``count`` tokens that the model ``name`` writes behind ``text``."""
    with mendable():
        with loading("the model"):
            from benchmarks import models
            from numeric import explain_generation

            models.check_device(device)
            loaded = models.load(name, device=device, writes=True)
        model, tokenizer = loaded.model, loaded.tokenizer
        found = explain_generation(model, tokenizer, text, max_new_tokens=count, method=method)
    if html:
        with mendable(f"--html {html}"):
            html.write_text(found.html(), "utf-8")
    found = found if by == "token" else found.by(by)
    if png:
        with mendable(f"--png {png}"):
            png.write_bytes(found.png())
    for part in found.terminal(console.width):
        console.print(part)
    for path in filter(None, (html, png)):
        console.print(f"wrote {path}", markup=False, soft_wrap=True)
