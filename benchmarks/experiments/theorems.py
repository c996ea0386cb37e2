"""The theorems: proves or refutes statements about LRP's rules by running every proof."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path

from lrp_axioms.axioms.evidence.certificates import certify
from lrp_axioms.axioms.evidence.prove import numbered, prove
from lrp_axioms.axioms.evidence.statements import THEOREMS
from lrp_axioms.benchmarks.experiments.record import Experiment, value
from lrp_axioms.benchmarks.experiments.result import Result
from lrp_axioms.benchmarks.running.workers import Each, Track, collected, in_turn, untracked

MATTER = (
    "test_equal_split_gives_6_6_12_and_12_6_6_where_leave_one_out_gives_24_24_24",
    "test_the_softmax_rule_does_not_conserve_relevance",
)
"""Tests of the theorems that answer the paper's two questions."""


def theorems(
    *,
    folder: Path = THEOREMS,
    each: Each = in_turn,
    track: Track = untracked,
    certificates: Path | None = None,
) -> Result:
    """Runs every proof, and returns the table of statements with their verdicts.

    ``certificates`` is a folder for every verdict as data.
    """
    files = sorted(folder.glob("test_*.py"))
    if certificates:
        verdicts = certify(*files, folder=certificates)
    else:
        found = collected(prove, files, each=each, track=track, description="theorems")
        verdicts = numbered(verdict for file in files for verdict in found[file])
    counts = Counter(verdict.verdict for verdict in verdicts)
    return Result(
        name="theorems",
        table="theorems",
        title="Theorems: what LRP rules guarantee, and what they do not",
        text=(
            "Each line was decided just now by exact computation: 'proved' by an identity of "
            "rational functions over generic symbols, 'refuted' by an exact counterexample."
        ),
        settings={"files": [file.name for file in files]},
        rows=[asdict(verdict) for verdict in verdicts],
        notes=(
            f"Of {len(verdicts)} statements about LRP rules: "
            f"{', '.join(f'{n} {verdict}' for verdict, n in sorted(counts.items()))}.",
        ),
    )


EXPERIMENT = Experiment(
    name="theorems",
    run=lambda request: theorems(each=request.each, track=request.track),
    columns=[
        ("no.", value("label")),
        ("statement", value("statement")),
        ("verdict", value("verdict")),
        ("witness, or scope of the proof", lambda row: row["witness"] or row.get("scope", "")),
    ],
    shortest=lambda row: (
        row["test"].endswith(MATTER) or row["verdict"] not in ("proved", "refuted")
    ),
    summary=lambda result: result.notes,
    in_markdown=False,
)
