"""Output of the notebooks' cells: text, figures, coloured sentences, sizes of measurements."""

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from IPython.display import HTML, Image, display
from jinja2 import Environment

from benchmarks.experiments.drawing import STYLE

SENTENCES = Environment(autoescape=True).from_string(
    """<table>{% for method, tokens in lines %}
<tr><td style="text-align:left; white-space:nowrap">{{ method }}</td><td style="text-align:left">
{% for t in tokens %}<span title="{{ t.value }}" style="{{ t.style }}">{{ t.token }}</span>
{% endfor %}</td></tr>{% endfor %}
</table>"""
)


def say(*paragraphs: str) -> None:
    """Shows paragraphs of Markdown, computed from numbers."""
    display({"text/markdown": without_tags("\n\n".join(paragraphs))}, raw=True)


def without_tags(markdown: str) -> str:
    """Escapes tags outside of code and formulas: <s> would strike out all that follows."""
    return re.sub(
        r"(`[^`]*`|\$[^$]*\$)|<(?=/?[a-zA-Z][\w-]*[\s/>])",
        lambda found: found[1] or r"\<",
        markdown,
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Shows a table; the first column to the left, the others to the right."""
    lines = [headers, ["---", *["--:"] * (len(headers) - 1)], *rows]
    say("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines))


def style():
    """Draws the block's figures in the style of the experiments."""
    return mpl.rc_context(STYLE)


def picture(figure) -> None:
    """Shows a matplotlib figure as PNG, small enough to be kept with the notebook."""
    made = io.BytesIO()
    figure.savefig(made, dpi=100)
    png(made.getvalue())


def png(picture: bytes) -> None:
    """Shows a picture that is made already."""
    display(Image(picture))


def sentences(tokens: Sequence[str], relevance: Mapping[str, Sequence[float]]) -> None:
    """Shows a sentence coloured by several methods; negative relevance is underlined."""
    from numeric.results.render import LEGEND, colours

    lines = []
    for method, values in relevance.items():
        cells = [
            {
                "token": token,
                "value": f"{value:+.3f}",
                "style": f"color:black; background:rgb{rgb}; padding:.15em .25em"
                + ("; text-decoration:underline" if value < 0 else ""),
            }
            for token, value, rgb in zip(tokens, values, colours(values), strict=True)
        ]
        lines.append((method, cells))
    display(HTML(SENTENCES.render(lines=lines)))
    say(LEGEND)


def signed(estimate) -> str:
    """Formats a mean difference with its 95 % interval."""
    return f"{estimate.mean:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]"


def verdict(estimate, *, above: str, below: str) -> str:
    """Returns ``above``, ``below`` or "undecided", by the side of 0 that an interval lies on."""
    if estimate.low > 0:
        return above
    return below if estimate.high < 0 else "undecided (the interval contains 0)"


def record(text: str, **sizes: int) -> None:
    """Shows a sentence on a measurement, and stores its sizes for the notebook's test."""
    display({"text/markdown": without_tags(text)}, raw=True, metadata={"measured": sizes})


def about(result) -> None:
    """Shows model, texts and code behind a result of the text experiments."""
    found = result.settings
    commits = ", ".join(short_commit(one) for one in found["measured by commits"])
    record(
        f"Measured: {found['examples']} texts of `{found['dataset']}` "
        f"({Path(found['dataset_origin']).name}, sha256 {found['dataset_sha256'][:12]}) "
        f"with the model `{Path(found['model']).name}` (sha256 {found['model_sha256'][:12]}), "
        f"{found['dtype'].replace('torch.', '')} on {found['device']}; code of commit {commits}.",
        **{found["dataset"]: found["examples"]},
    )


def short_commit(commit: str | None) -> str:
    """Returns the first digits of a commit, and whether files differed from it."""
    name, _, dirty = (commit or "unknown").partition("-")
    return f"`{name[:12]}`" + (f" ({dirty})" if dirty else "")
