"""Checks the evidence for a verdict: each run of a theorem's test must have decided its statement.

A pytest plugin, with one hook: both ``pytest axioms`` and ``lrp-axioms prove`` use it.
"""

import re
from collections.abc import Generator
from typing import TypeAlias

import pytest

from lrp_axioms.axioms.decide.decisions import DIFFER_AT, IDENTICAL, Decision
from lrp_axioms.axioms.decide.identity import apart, value_at
from lrp_axioms.axioms.decide.records import Depends, Record, disturbing, recording
from lrp_axioms.axioms.evidence import scope as scopes
from lrp_axioms.axioms.evidence.counts import hold
from lrp_axioms.axioms.evidence.statements import THEOREMS, Claim

Properties: TypeAlias = list[tuple[str, object]]  # recorded by a run of a test

VERDICTS = ("proved", "refuted")
DECISIONS = pytest.StashKey[list[Decision]]()  # of one run of a test
COUNT, POINT, RAN = "identities", "point", "ran"  # properties that a run of a test is given


def claim(marker: pytest.Mark) -> Claim:
    """The arguments of ``@pytest.mark.theorem``; ValueError if it has others."""
    try:
        found = Claim(*marker.args, **marker.kwargs)
    except TypeError as error:
        raise ValueError(f"{error}; write theorem(number, statement, verdict)") from None
    if found.verdict not in VERDICTS:
        raise ValueError(f"verdict {found.verdict!r}; write one of {', '.join(VERDICTS)}")
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    marker = item.get_closest_marker("theorem")
    if marker is None:
        return (yield)
    with recording() as record:
        result = yield
    item.stash[DECISIONS] = record.decisions
    words = "; ".join(str(text) for key, text in item.user_properties if key == "witness")
    try:
        said = claim(marker)
        proved = said.verdict == "proved"
        found = proof(record) if proved else refutation(record, words)
        decision = IDENTICAL if proved else DIFFER_AT
        hold(item, record.decisions)
        if proved and item.path.parent == THEOREMS:
            scopes.hold(said.given, said.scope, record.decisions)
        _needs_results(item, decision, record.answers)
    except ValueError as error:
        why = str(error)
    else:
        item.user_properties += [*found, *((RAN, name) for name in record.ran)]
        return result
    pytest.fail(why, pytrace=False)


def proof(record: Record) -> Properties:
    """How many identities were decided that are none as written; ValueError if that is no proof."""
    if not record.identities:
        raise ValueError(
            "no identity was decided: a proof passes both sides to axioms.decide.identity.identical"
        )
    general = [decision for decision in record.identities if decision.symbols]
    if not general:
        first = record.identities[0]
        raise ValueError(
            f"{first.left} = {first.right}: every identity is one of two constants; decide it over "
            "symbols"
        )
    _needs_to_run(record)
    count = sum(not decision.is_trivial for decision in general)
    return [(COUNT, count), *((POINT, text) for text, *_ in _evaluate(record))]


def refutation(record: Record, words: str) -> Properties:
    """Evaluates the refuting points again; raises ValueError that says why none refutes.

    ``words`` is the witness in the words of the test; it must name two values that differ.
    """
    if not record.differences:
        raise ValueError(
            "no witness was decided: a refutation passes both sides, in symbols, and the point to "
            "lrp_axioms.axioms.decide.identity.differ_at"
        )
    _needs_to_run(record)
    found = _evaluate(record)
    points = [text for text, *_ in found]
    if words and not any(all(_names(words, value) for value in pair) for _, *pair in found):
        raise ValueError(
            f"witness {words!r} names no two values that differ; they are {'; '.join(points)}"
        )
    count = sum(not decision.is_trivial for decision in record.identities)
    return [(COUNT, count), *((POINT, text) for text in points)]


def _evaluate(record: Record) -> list[tuple[str, str, str]]:
    """The words and both values of every recorded difference, with its point put in again."""
    evaluated = []
    for found in record.differences:
        lhs, rhs, point = found.left, found.right, found.point
        if not found.symbols:
            raise ValueError(
                f"{lhs} versus {rhs} are two constants, with nothing to put a point into; pass "
                "both sides in symbols"
            )
        one, other = value_at(lhs, point), value_at(rhs, point)
        used = {x: point[x] for x in found.symbols}
        where = ", ".join(f"{x} = {value}" for x, value in used.items())
        if not apart(one, other):
            raise ValueError(f"both sides are {one} at {where}: that refutes nothing")
        evaluated.append((f"{where}: {one} versus {other}", str(one), str(other)))
    return evaluated


def _needs_to_run(record: Record) -> None:
    if not record.ran:
        raise ValueError(
            "nothing of the project ran: decide about what axioms.rules.linear, "
            "axioms.rules.propagate or another module of axioms computes"
        )


def _needs_results(item: pytest.Item, decision: str, answers: list[bool]) -> None:
    """Runs the test once more, where all that the project computes is another value."""
    noted = list(item.user_properties)
    try:
        with disturbing(decision, answers):
            item.runtest()
    except Depends:
        return
    except (Exception, pytest.fail.Exception, pytest.skip.Exception):
        pass  # it noticed, but before any such decision
    finally:
        item.user_properties[:] = noted
    raise ValueError(
        f"nothing that `{decision}` decides depends on what the project computes: pass the results "
        "of its functions, before the test asserts anything else of them"
    )


def _names(words: str, value: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", words) is not None
