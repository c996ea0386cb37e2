"""The auditor's numbers add up as printed, and no form leaves out a part of the audit."""

import json
import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axioms.composites import ATTNLRP, CP_LRP
from numeric.auditing.audit import audit
from numeric.auditing.data import Subject, plain
from numeric.auditing.page import page
from numeric.auditing.rounding import UNITS, accounts, balance, by_kind, signed
from numeric.auditing.terminal import terminal
from tests.support import program
from tests.support.audits import eager

NASTY = [
    "<script>alert(1)</script>", '& "quotes"', "[bold]", "[/b]", "</td>", "映画", "{{ 7 * 7 }}",
]  # fmt: skip
CASES = {
    "bert": ("bert", ATTNLRP, 0.0),
    "bert by cp-lrp at a finite epsilon": ("bert", CP_LRP, 0.25),
    "vit": ("vit", ATTNLRP, 0.0),
}
NUMBER = r"[+-]\d+\.\d{4}"


@pytest.fixture(scope="module", params=CASES)
def seen(request):
    """(Audit, facts) of a tiny model whose tokens are as nasty as can be."""
    family, composite, epsilon = CASES[request.param]
    found = audit(*eager(family), composite, epsilon=epsilon)
    tokens = [NASTY[i % len(NASTY)] for i in range(len(found.relevance))]
    subject = Subject(model="tiny", input=" ".join(tokens), tokens=tuple(tokens), label="<b>no</b>")
    return found, plain(found, subject)


def printed(facts, width=80):
    return program.printed(terminal(facts), width)


def section(text, heading):
    """Lines below a heading, up to the next empty one."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(heading))
    body = lines[start + 1 :]
    return body[: next((n for n, line in enumerate(body) if not line.strip()), len(body))]


def amounts(line):
    return [Decimal(x) for x in re.findall(NUMBER, line)]


def check_causes(text):
    """Every cause as printed, summed in decimals, is the residual as printed."""
    rows = [amounts(line)[:1] for line in section(text, "The residual by cause")]
    *causes, residual = [row[0] for row in rows if row]
    header = re.search(rf"^residual +({NUMBER})", text, flags=re.MULTILINE)
    assert sum(causes) == residual == Decimal(header[1])


def check_layers(text):
    """Each row balances; the output of a layer arrives at the next; leaves take the rest."""
    body = section(text, "By layer")
    ends = next(n for n, line in enumerate(body) if "ends in" in line)
    rows = [amounts(line) for line in body[:ends] if amounts(line)]
    logit = re.search(rf"^logit +({NUMBER})", text, flags=re.MULTILINE)
    assert rows[0][0] == Decimal(logit[1])
    assert all(arrived == sum(rest) for arrived, *rest in rows)
    assert [row[-1] for row in rows[:-1]] == [row[0] for row in rows[1:]]
    assert sum(amounts(line)[0] for line in body[ends + 1 :] if amounts(line)) == rows[-1][-1]


def check_worst(text):
    body = section(text, "What absorbs or makes most")
    rows = [amounts(line)[:3] for line in body if re.match(rf" *{NUMBER} ", line[:10])]
    assert len(rows) == 10
    assert all(row[0] == row[1] + row[2] for row in rows)


CHECKS = {
    check_causes: "The residual by cause",
    check_layers: "By layer",
    check_worst: "What absorbs or makes most",
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("check", CHECKS)
def test_numbers_in_the_terminal_add_up_in_every_digit(seen, check, width):
    check(printed(seen[1], width))


@pytest.mark.parametrize("check", CHECKS)
def test_the_checks_see_one_wrong_digit_or_a_lost_row(seen, check):
    text = printed(seen[1])
    rows = [line for line in section(text, CHECKS[check]) if amounts(line)]
    number = re.search(NUMBER, rows[0])[0]
    last = str((int(number[-1]) + 1) % 10)
    wrong = text.replace(rows[0], rows[0].replace(number, number[:-1] + last, 1), 1)
    lost = text.replace(rows[0] + "\n", "", 1)
    for broken in (wrong, lost):
        assert broken != text
        with pytest.raises(AssertionError):
            check(broken)


def test_lines_fit_80_columns_and_paths_are_whole(seen):
    facts, text = seen[1], printed(seen[1])
    assert max(map(len, text.splitlines())) <= 80
    for number in facts["worst"]:
        op = facts["operations"][number]
        assert flat(f"{op['module']}{op['line']}{op['kind']}by{op['rule']}") in flat(text)
    assert "…" not in text


def flat(words):
    return "".join(words.split())


def test_every_cause_and_verdict_is_in_all_three_forms(seen):
    found, facts = seen
    forms = [
        flat(printed(facts)),
        flat(program.Page(page(facts)).words),
        flat(str(json.loads(json.dumps(facts, ensure_ascii=False))).replace("\\\\", "\\")),
    ]
    expected = [*found.by_cause()]
    for verdict in found.verdicts:
        expected += [verdict.statement, verdict.reason, verdict.witness, verdict.verdict]
    assert len(expected) > 20
    for form in forms:
        assert [words for words in expected if flat(words) not in form] == []


def test_no_name_is_read_as_markup(seen):
    facts = seen[1]
    stages = [stage | {"name": "[/b]"} for stage in facts["stages"]]
    kinds = [op | {"kind": "[red]x"} for op in facts["operations"]]
    said = printed(facts | {"stages": stages, "operations": kinds})
    assert "[/b]" in said
    assert "[red]x" in said


def test_the_page_escapes_the_input_loads_nothing_and_links_to_rows_that_exist(seen):
    source = page(seen[1])
    shown = program.Page(source)
    assert shown.tags.count("script") == 1  # the page's own
    assert "<b>no</b>" not in source
    assert all(where.startswith("#operation-") for where in shown.loads)
    assert len(shown.loads) > 10
    assert {where.removeprefix("#") for where in shown.loads} <= shown.ids
    assert "http" not in re.sub(r"http-equiv", "", source)
    for entry in seen[1]["tokens"]:
        assert entry["token"] in shown.words


def test_json_holds_every_amount_in_full_precision(seen):
    found, facts = seen
    again = json.loads(json.dumps(facts, allow_nan=False))
    assert again == facts
    assert again["causes"] == found.by_cause()
    assert again["logit"] == found.logit
    assert [entry["relevance"] for entry in again["tokens"]] == found.relevance.tolist()
    for op, line in zip(again["operations"], found.ledger.lines, strict=True):
        assert (op["arrived"], op["passed"]) == (line.arrived, line.passed)
        assert math.fsum(op["absorbed"].values()) == pytest.approx(
            line.arrived - line.passed, abs=1e-12
        )
    assert sum(again["causes"].values()) == pytest.approx(found.residual, abs=1e-12)
    ends = sum(leaf["relevance"] for leaf in again["leaves"])
    assert again["stages"][-1]["passed"] == pytest.approx(ends, abs=1e-12)
    assert sorted(n for s in again["stages"] for n in s["operations"]) == [
        op["number"] for op in again["operations"]
    ]


def keys(value):
    """All fixed keys: keys of records, and not of tables by name."""
    tables = ("causes", "absorbed", "kinds", "seconds", "versions", "merges", "depths", "rules")
    if isinstance(value, list):
        return {key for x in value for key in keys(x)}
    if not isinstance(value, dict):
        return set()
    inside = (keys(x) for key, x in value.items() if key not in (*tables, "layers", "modules"))
    return set(value).union(*inside)


def test_every_key_is_documented(seen):
    text = (Path(__file__).parents[2] / "docs" / "AUDIT.md").read_text(encoding="utf-8")
    assert {key for key in keys(seen[1]) if f"`{key}`" not in text} == set()


def test_a_token_too_few_is_an_error(seen):
    found, facts = seen
    tokens = tuple(entry["token"] for entry in facts["tokens"][1:])
    subject = Subject(model="tiny", input="", tokens=tokens, label="")
    with pytest.raises(ValueError, match=f"{len(tokens)} tokens for {len(tokens) + 1} positions"):
        plain(found, subject)


# Rounding


AMOUNT = st.floats(-50, 50)


@given(
    st.lists(AMOUNT, min_size=1, max_size=2),
    st.lists(st.tuples(st.sampled_from(["position", "token type"]), AMOUNT), max_size=3),
    st.lists(AMOUNT, min_size=1, max_size=6),
    st.sampled_from([1, 1e12, 1e30]),
)
def test_all_numbers_of_an_audit_add_up_and_none_moves_by_three_digits(words, ends, absorbed, size):
    facts = of_leaves([("word", x) for x in words] + ends, absorbed, size)
    causes, leaves = accounts(facts)
    passed = sum(leaf["relevance"] for leaf in facts["leaves"])
    number = lambda text: Fraction(text)  # Decimal has 28 digits
    assert sum(map(number, causes.values())) == number(signed(facts["residual"]))
    assert sum(map(number, leaves)) == number(signed(passed))
    if ends:
        received = number(signed(facts["logit"])) - number(signed(facts["residual"]))
        assert sum(map(number, leaves[: len(words)])) == received
    for role in dict(ends):
        shown = [
            number(x) for (r, _), x in zip(ends, leaves[len(words) :], strict=True) if r == role
        ]
        assert sum(shown) == number(causes[f"{role} embedding"])
    amounts = [*facts["causes"].values(), *(leaf["relevance"] for leaf in facts["leaves"])]
    coarse = 1e-14 * size * 500  # of floats, which is less than a digit up to 1e9
    most = (3 + 1e-6) / UNITS + coarse
    written = [*causes.values(), *leaves]
    several = max(1, len(ends))  # one cause is their sum
    assert all(abs(float(s) - x) < several * most for s, x in zip(written, amounts, strict=True))
    assert "-0.0000" not in written


@given(st.integers(-200, 200), st.lists(st.integers(-200, 200), max_size=4))
def test_what_arrives_is_absorbed_and_passed_on_in_every_digit(arrived, absorbed):
    """Halves of a digit are ties, which two rounded numbers may take in opposite directions."""
    absorbed = {str(n): x / 32 for n, x in enumerate(absorbed)}
    before, causes, after = balance(arrived / 32, absorbed)
    assert before == signed(arrived / 32)
    assert Fraction(before) == sum(map(Fraction, causes.values())) + Fraction(after)
    assert all(abs(float(causes[n]) - x) <= 2 / UNITS for n, x in absorbed.items())


def test_kinds_of_operations_add_up_to_the_causes(seen):
    facts = seen[1]
    causes, _ = accounts(facts)
    kinds = by_kind(facts)
    assert kinds.keys() == facts["kinds"].keys()
    for cause in {cause for row in kinds.values() for cause in row}:
        column = [Decimal(row[cause]) for row in kinds.values() if cause in row]
        assert sum(column) == Decimal(causes[cause])


def of_leaves(leaves, absorbed, size=1.0):
    """The facts of an audit with these leaves, by role, and these absorbed amounts."""
    causes = {f"cause {n}": size * x for n, x in enumerate(absorbed)}
    for role, x in leaves:
        if role != "word":
            name = f"{role} embedding"
            causes[name] = causes.get(name, 0.0) + size * x
    residual = sum(causes.values())
    logit = residual + sum(size * x for role, x in leaves if role == "word")
    found = [{"role": role, "relevance": size * x} for role, x in leaves]
    return {"logit": logit, "residual": residual, "causes": causes, "leaves": found}


def test_what_ends_in_positions_is_one_number_in_the_terminal_and_on_the_page(seen):
    facts = seen[1]
    words = program.Page(page(facts)).words
    for cause, amount in facts["causes"].items():
        if cause.endswith(" embedding"):
            role = cause.removesuffix(" embedding")
            lines = [line for line in printed(facts).splitlines() if f" {role}" in line]
            (shown,) = {x for line in lines for x in re.findall(NUMBER, line)}
            assert float(shown) == pytest.approx(amount, abs=2 / UNITS)
            assert f"ends in {role}: {shown}" in words


@pytest.mark.parametrize("name", ["logit", "residual"])
def test_parts_that_do_not_add_up_are_not_made_to(name):
    facts = of_leaves([("word", 1.0), ("position", 2.0)], [0.5])
    with pytest.raises(ValueError, match="do not sum to"):
        accounts(facts | {name: facts[name] + 0.001})


def test_a_balance_hands_on_what_the_next_one_starts_with():
    first = balance(1.00005, {"a": 0.33333, "b": 0.33333})
    second = balance(1.00005 - 0.33333 - 0.33333, {"a": -0.1})
    assert first[2] == second[0]
    assert Decimal(first[0]) == sum(map(Decimal, first[1].values())) + Decimal(first[2])
