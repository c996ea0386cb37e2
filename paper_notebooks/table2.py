"""Cells on Table 2 that notebooks 3 and 4 share, without prose and closing assertions."""

from benchmarks.experiments import drawing, tables
from benchmarks.experiments.table2 import METHODS
from paper_notebooks import figures, output
from paper_notebooks.comparison import AS_IN_THE_PAPER, TOKENS, Comparison


def table(result) -> None:
    """Shows Table 2 with the paper's numbers, and its figure."""
    output.say(tables.markdown(result))
    output.picture(drawing.draw(result))


def text_by_text(found: Comparison) -> None:
    """Shows the paired differences: their distribution, means and verdicts."""
    output.picture(figures.gaps(found.gaps))
    headers = ["r of CP-LRP minus r of AttnLRP", "mean [95 %]", "texts above 0", "verdict"]
    output.table(headers, found.rows())


def turned(found: Comparison) -> None:
    """Shows how often "sum to one" turns r around."""
    shares = ", ".join(f"{method} {share:.1%}" for method, share in found.turned.items())
    output.say(f"Texts whose r changes its sign when both maps are made to sum to one: {shares}.")


def rules(result) -> list[tuple]:
    """Returns r of sum-to-one maps by the rule at the softmax, and the paper's."""
    key, pairs = "r all, sum to one", list(zip(result.rows[::2], result.rows[1::2], strict=True))
    paper = {row["method"]: of_paper.get(key) for row, of_paper in pairs}
    named = {"AttnLRP": "AttnLRP, Eq. 5", "identity softmax": "AttnLRP, R_Z = R_A", "CP-LRP": ""}
    return [
        (named[name] or name, f"{row[key]:.2f}", paper[name] or paper["AttnLRP"])
        for row, _ in pairs
        if (name := row["method"]) in named
    ]


def curves(found: Comparison) -> None:
    """Shows the paired difference of Δ."""
    better = output.verdict(found.delta, above="CP-LRP", below="AttnLRP")
    output.say(
        f"Δ of CP-LRP minus Δ of AttnLRP: {output.signed(found.delta)} logits, paired. "
        f"Larger: {better}."
    )


def headline(result, found: Comparison) -> None:
    """Shows the answer in a sentence; AssertionError unless all rows and intervals are there."""
    raw = {tokens: found.closer(tokens) for tokens in TOKENS}
    output.say(
        f"**On {result.settings['examples']} texts of {result.settings['dataset']}, closer to "
        f"Leave-One-Out over all tokens: {raw['all']}; over content tokens: {raw['content']}. Of "
        f"maps that sum to one, as in the paper: {found.closer(AS_IN_THE_PAPER)} (the paper: "
        f"CP-LRP). [CLS] and [SEP] carry {output.signed(found.carried)} of the first difference.**"
    )
    methods = [row["method"] for row in result.rows if row["method"] != "  paper"]
    means = (*found.means.values(), found.carried, found.delta)
    assert methods[: len(METHODS)] == list(METHODS), "every row of the paper is there, and first"
    assert all(mean.low <= mean.mean <= mean.high for mean in means)
