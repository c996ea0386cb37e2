"""CP-LRP against AttnLRP on the same texts, for Table 2 in notebooks 3 and 4."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.experiments.maps import SEED
from numeric.evaluation.correlation import BootstrapMean, bootstrap_mean, flipped
from paper_notebooks import output

TOKENS = ("all", "content")
AS_IN_THE_PAPER = "all, sum to one"
LABELS = {
    "all": "over all tokens",
    "content": "over content tokens",
    AS_IN_THE_PAPER: "over all tokens, sum to one",
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Paired differences over texts, CP-LRP minus AttnLRP, and their means with intervals."""

    gaps: dict[str, np.ndarray]  # maps -> differences of r with Leave-One-Out
    means: dict[str, BootstrapMean]
    carried: BootstrapMean  # by [CLS] and [SEP]: gap over all less gap over content tokens
    delta: BootstrapMean  # of LeRF - MoRF, in logits
    turned: dict[str, float]  # method -> share of texts whose r changes sign by "sum to one"

    def rows(self) -> list[list[str]]:
        """Returns rows of a table: difference, interval, share of texts, verdict."""
        who = {"above": "CP-LRP is closer", "below": "AttnLRP is closer"}
        rows = []
        for maps, gap in self.gaps.items():
            mean, share = self.means[maps], (gap > 0)[~np.isnan(gap)].mean()
            verdict = output.verdict(mean, **who)
            rows.append([LABELS[maps], output.signed(mean), f"{share:.2f}", verdict])
        verdict = output.verdict(self.carried, above="favours CP-LRP", below="favours AttnLRP")
        return [*rows, ["carried by [CLS] and [SEP]", output.signed(self.carried), "–", verdict]]

    def closer(self, tokens: str) -> str:
        """Names the method whose maps are closer to Leave-One-Out, or says "undecided"."""
        found = self.means[tokens]
        verdict = output.verdict(found, above="CP-LRP", below="AttnLRP")
        return f"{verdict}, {output.signed(found)}"


def compare(result) -> Comparison:
    """Compares the per-text values of a Result of Table 2."""
    both = lambda key: [per_text(result.examples, key, m) for m in ("CP-LRP", "AttnLRP")]
    gaps = {maps: np.subtract(*both(f"r {maps}")) for maps in LABELS}
    mean = lambda values: bootstrap_mean(values, seed=SEED)
    return Comparison(
        gaps=gaps,
        means={maps: mean(gap) for maps, gap in gaps.items()},
        carried=mean(gaps["all"] - gaps["content"]),
        delta=mean(np.subtract(*both("Δ"))),
        turned={method: _turned(result.examples, method) for method in ("IG", "AttnLRP", "CP-LRP")},
    )


def _turned(columns, method):
    both = (per_text(columns, key, method) for key in ("r all", f"r {AS_IN_THE_PAPER}"))
    return float(np.nanmean(flipped(*both)))


def per_text(columns: Mapping[str, Sequence], key: str, method: str) -> np.ndarray:
    """Returns a method's values in the order of the texts, from a Result's ``examples``."""
    block = zip(columns["method"], columns["example"], columns[key], strict=True)
    values = {example: value for name, example, value in block if name == method}
    return np.array([values[example] for example in sorted(values)])
