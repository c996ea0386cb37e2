"""For other projects' tests: an assertion that an explanation conserves relevance."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.graph import Origin
from lrp_axioms.numeric.auditing.accounts import Audit, size_of
from lrp_axioms.numeric.auditing.audit import audit
from lrp_axioms.numeric.auditing.ledger import NUMERICAL
from lrp_axioms.numeric.targets import Label, Target

SHOWN = 5


def assert_conserves(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    method: str | Composite = "attnlrp",
    target: Label | Target = None,
    *,
    tol: float = 1e-6,
    absorbing: Collection[str] = (),
    **options: Any,
) -> Audit:
    """Asserts that words, positions and types receive the logit up to ``tol`` logits (Sec. 2.1).

    ``inputs`` and further options as in ``audit``, for one example.  ``absorbing`` names causes
    that may absorb relevance, such as "bias", "LayerNorm beta", "Taylor term" and "stabiliser".
    Returns the audit.
    Raises AssertionError that lists every other cause and the operations that absorb most, and
    ValueError for an unknown cause and for a ``tol`` that is no finite number.
    """
    if isinstance(tol, bool) or not isinstance(tol, Real) or not 0 <= tol < float("inf"):
        raise ValueError(f"tol={tol!r}: pass a finite number of logits, at least 0")
    found = audit(model, inputs, method, target, **options)
    causes = {name: x for name, x in found.by_cause().items() if not name.endswith("embedding")}
    unknown = sorted(set(absorbing) - set(causes))
    if unknown:
        raise ValueError(
            f"absorbing={unknown}: no such cause in this model; it has {', '.join(causes)}"
        )
    left = {name: amount for name, amount in causes.items() if name not in absorbing}
    lost = sum(left.values())
    if not abs(lost) <= tol:  # also where it is no number
        raise AssertionError(_explain(found, left, lost, tol))
    return found


def _explain(found: Audit, left: Mapping[str, float], lost: float, tol: float) -> str:
    lines = [
        f"{found.model} under {found.composite.name} does not conserve: {lost:+.6g} of the logit "
        f"{found.logit:+.6g} reach no leaf (tol={tol:g})"
    ]
    lines += [f"  {name:<16} {amount:+.6g}" for name, amount in left.items() if amount]
    causes = ((x, {**x.absorbed, NUMERICAL: x.numerical}) for x in found.lines())
    kept = (
        replace(line, absorbed={x: r for x, r in every.items() if r and x in left})
        for line, every in causes
    )
    places = sorted(filter(size_of, kept), key=size_of, reverse=True)[:SHOWN]
    lines += ["most of it at"] if places else []
    for line in places:
        absorbed = ", ".join(f"{cause} {x:+.3g}" for cause, x in line.absorbed.items())
        origin = line.node.origin or Origin()
        lines.append(f"  {origin.module or '(root)'} ({origin.line}), {line.kind}: {absorbed}")
    lines.append("Pass absorbing=[...] for causes that are meant to absorb.")
    return "\n".join(lines)
