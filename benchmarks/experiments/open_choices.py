"""How much the choices that the paper leaves open change the agreement with Leave-One-Out."""

from lrp_axioms.benchmarks.experiments.maps import SEED, Measured, correlations, means, too_few
from lrp_axioms.benchmarks.experiments.record import Experiment, number, value
from lrp_axioms.benchmarks.experiments.result import Result, undefined
from lrp_axioms.benchmarks.experiments.rows import LOO, LRP
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean

TOKENS = ("all", "content")
REFERENCES = {
    "LOO": "attention mask",
    "LOO, [MASK] in place": "[MASK]",
    "LOO, deletion": "deletion",
    "LOO, logit difference": "logit difference",
}


def sensitivity(data: Measured) -> Result:
    """Agreement with LOO while one choice that the paper leaves open changes at a time."""
    rows, agreement = [], {}
    for label, maps in data.maps.items():
        method, _, choice = label.partition(", ")
        row = {"method": method, "choice": choice or "as in Table 2"}
        for reference, name in REFERENCES.items():
            if label != reference:
                found = correlations(maps, data.maps[reference])
                row |= means({f"{name} {x}": found[f"r {x}"] for x in TOKENS})
                if reference == "LOO":
                    agreement[method, row["choice"]] = found
        rows.append(row)
    order = ["AttnLRP", "CP-LRP", "LOO", *(row["method"] for row in rows)]
    return data.result(
        "sensitivity",
        title=f"Open choices: how much they change r with Leave-One-Out, on {data.dataset}",
        text=(
            "Mean Pearson's r over content tokens (and over all tokens) between each variant and "
            "four references: Leave-One-Out by attention mask (the paper's), with [MASK] in "
            "place, by deletion (what follows moves up; [CLS], whose row the classifier reads, is "
            "only hidden), and of the difference of the two logits. "
            "One choice changes at a time; rules change inside the layers. What is changed runs in "
            "float64, the maps of Table 2 in its float32."
        ),
        rows=sorted(rows, key=lambda row: order.index(row["method"])),
        notes=(
            *_notes(agreement),
            *too_few(len(data.maps["LOO"].present)),
            *undefined(rows),
        ),
    )


def _notes(found):
    """Says by choice whether r of CP-LRP is above r of AttnLRP: (method, choice) -> r per text."""
    choices = [choice for method, choice in found if method == "AttnLRP"]
    choices = [choice for choice in choices if ("CP-LRP", choice) in found]
    r = lambda method, choice, tokens: found[method, choice][f"r {tokens}"]
    for tokens in TOKENS:
        pairs = {c: r("CP-LRP", c, tokens) - r("AttnLRP", c, tokens) for c in choices}
        gaps = {c: bootstrap_mean(values, seed=SEED) for c, values in pairs.items()}
        ahead = [c for c, gap in gaps.items() if gap.low > 0]
        behind = [c for c, gap in gaps.items() if gap.high < 0]
        neither = [c for c in choices if c not in (*ahead, *behind)]
        yield (
            f"Over {tokens} tokens r of CP-LRP is above r of AttnLRP (paired 95 % intervals) with: "
            f"{'; '.join(ahead) or 'none'}; below it with: {'; '.join(behind) or 'none'}; "
            f"undecided with: {'; '.join(neither) or 'none'}."
        )


def _both(key):
    """Formats a value over all and over content tokens."""
    return lambda row: " / ".join(number(f"{key} {t}", 2)(row) for t in TOKENS)


EXPERIMENT = Experiment(
    name="sensitivity",
    rows=(LOO, *LRP, "sensitivity-{}"),
    run=sensitivity,
    columns=[
        ("method", value("method")),
        ("what is changed", value("choice")),
        ("mask", _both("attention mask")),
        ("[MASK]", _both("[MASK]")),
        ("deletion", _both("deletion")),
        ("logit diff.", _both("logit difference")),
    ],
)
