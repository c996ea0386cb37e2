"""What notebooks 3 and 4 show alike of Table 2; prose and closing assertions are their own."""

from benchmarks.experiments import agreement, tables
from benchmarks.experiments.figures import FIGURES
from paper_notebooks import figures, shown
from paper_notebooks.comparison import Comparison


def table(result) -> None:
    """Table 2 with the paper's numbers, and its figure."""
    shown.say(tables.markdown(result))
    shown.picture(FIGURES["table2"](result))


def text_by_text(found: Comparison) -> None:
    """The paired differences: their distribution, means and verdicts."""
    shown.picture(figures.gaps(found.gaps))
    headers = ["r of CP-LRP minus r of AttnLRP", "mean [95 %]", "texts above 0", "verdict"]
    shown.table(headers, found.rows())


def turned(found: Comparison) -> None:
    """How often "sum to one" turns r around."""
    shares = ", ".join(f"{method} {share:.1%}" for method, share in found.turned.items())
    shown.say(f"Texts whose r changes its sign when both maps are made to sum to one: {shares}.")


def curves(found: Comparison) -> None:
    """The paired difference of Δ."""
    better = shown.verdict(found.delta, above="CP-LRP", below="AttnLRP")
    shown.say(
        f"Δ of CP-LRP minus Δ of AttnLRP: {shown.signed(found.delta)} logits, paired. "
        f"Larger: {better}."
    )


def headline(result, found: Comparison) -> None:
    """The answer in one sentence; AssertionError unless all rows and intervals are there."""
    shown.say(
        f"**On {result.settings['examples']} texts of {result.settings['dataset']}, closer to "
        f"Leave-One-Out over all tokens: {found.closer('all')} (the paper: CP-LRP); over content "
        f"tokens: {found.closer('content')}. [CLS] and [SEP] carry {shown.signed(found.carried)} "
        "of the difference.**"
    )
    methods = [row["method"] for row in result.rows if row["method"] != "  paper"]
    means = (*found.means.values(), found.carried, found.delta)
    assert methods == list(agreement.METHODS), "every row of Table 2 is there"
    assert all(mean.low <= mean.mean <= mean.high for mean in means)
