"""An audit as plain data, which is written as JSON and shown by terminal and page."""

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from typing import Any

from lrp_axioms.axioms.audit import Structure, Verdict
from lrp_axioms.axioms.graph import Node, Origin
from lrp_axioms.numeric.auditing import ledger as ledgers
from lrp_axioms.numeric.auditing.accounts import Audit
from lrp_axioms.numeric.auditing.draft import Depth

SCHEMA = 2
PACKAGES = ("lrp-axioms", "torch", "transformers", "numpy", "sympy")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The audited model, input and label, in words."""

    model: str  # the name that loads it
    input: str  # the text, or where the image is from
    tokens: tuple[str, ...]
    label: str  # of the explained class
    explains: str = "class"  # or the next token of a language model
    explained: float | None = None  # share of the variance of the logit, as in ``evaluate``


def plain(audit: Audit, subject: Subject, *, worst: int = 10) -> dict[str, Any]:
    """Returns one audit as JSON can hold it; keys are described in docs/AUDIT.md.

    All amounts in logits, in full precision.  Raises ValueError unless there is one token per
    position.
    """
    if len(subject.tokens) != len(audit.relevance):
        raise ValueError(
            f"{len(subject.tokens)} tokens for {len(audit.relevance)} positions of "
            f"{subject.model}; pass a name for each position"
        )
    numbers = {line.node: number for number, line in enumerate(audit.ledger.lines)}
    return {
        "schema": SCHEMA,
        "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "model": {"name": subject.model, "class": audit.model},
        "input": subject.input,
        "composite": {
            "name": audit.composite.name,
            "rules": dict(audit.composite.rules),
            "layers": {str(k): dict(rules) for k, rules in audit.composite.layers.items()},
            "modules": {path: dict(rules) for path, rules in audit.composite.modules.items()},
        },
        "epsilon": audit.epsilon,
        "target": audit.target,
        "explains": subject.explains,
        "label": subject.label,
        "logit": audit.logit,
        "residual": audit.residual,
        "explained": subject.explained,
        "forward_error": audit.forward_error,
        "seconds": dict(audit.seconds),
        "notes": list(audit.notes),
        "tokens": [
            {"token": token, "relevance": float(r)}
            for token, r in zip(subject.tokens, audit.relevance, strict=True)
        ],
        "causes": audit.by_cause(),
        "kinds": audit.by_kind(),
        "stages": list(_stages(audit, numbers)),
        "leaves": [
            {"name": leaf.name, "role": leaf.attributes["role"], "relevance": float(r.sum())}
            for leaf, r in audit.ledger.leaves.items()
        ],
        "operations": [_operation(number, line) for number, line in enumerate(audit.lines())],
        "worst": [numbers[line.node] for line in audit.worst(worst)],
        "verdicts": [_verdict(verdict, numbers) for verdict in audit.verdicts],
        "structure": _structure(audit.structure),
    }


def _operation(number: int, line: ledgers.Line) -> dict[str, Any]:
    origin = line.node.origin or Origin()
    return {
        "number": number,
        "name": line.node.name,
        "kind": line.kind,
        "rule": line.rule,
        "module": origin.module,
        "line": origin.line,
        "layer": line.node.attributes["depth"],
        "shape": list(line.node.attributes["shape"]),
        "arrived": line.arrived,
        "absorbed": {**line.absorbed, ledgers.NUMERICAL: line.numerical},
        "passed": line.passed,
    }


def _stages(audit: Audit, numbers: Mapping[Node, int]) -> Iterator[dict[str, Any]]:
    """Yields consecutive operations of one layer, from the logit down.

    Operations are ordered so that relevance only moves on: all relevance that leaves a stage
    arrives at the next.  With several stacks, this includes relevance that is still in the others,
    or has ended there.
    """
    runs = [
        (layer, list(lines))
        for layer, lines in groupby(audit.lines(), lambda line: line.node.attributes["depth"])
    ]
    arrived = audit.ledger.started
    for place, (layer, lines) in enumerate(runs):
        causes = ledgers.totals(lines, lambda _: None)[None]
        passed = arrived - sum(causes.values())
        yield {
            "name": _stage_name(layer, place, len(runs)),
            "layer": layer,
            "signature": audit.captured.signatures.get(layer, ""),
            "arrived": arrived,
            "absorbed": causes,
            "passed": passed,
            "operations": [numbers[line.node] for line in lines],
        }
        arrived = passed


def _stage_name(layer: Depth, place: int, count: int) -> str:
    if layer is not None:
        return f"layer {layer}" if isinstance(layer, int) else layer
    if count == 1:
        return "the whole model"
    return {0: "head", count - 1: "embeddings"}.get(place, "between layers")


def _verdict(verdict: Verdict, numbers: Mapping[Node, int]) -> dict[str, Any]:
    return {
        "statement": verdict.statement,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "proof": verdict.proof,
        "witness": verdict.witness,
        "operations": sorted(numbers[node] for node in verdict.nodes if node in numbers),
    }


def _structure(structure: Structure) -> dict[str, Any]:
    return {
        "pairs": [
            {"below": below, "above": above, "count": count}
            for (below, above), count in structure.pairs.items()
        ],
        "depths": {
            leaf: {str(depth): paths for depth, paths in counts.items()}
            for leaf, counts in structure.depths.items()
        },
        "merges": dict(structure.merges),
    }
