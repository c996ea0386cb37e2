"""The checker of certificates confirms what was proved, and nothing that was changed afterwards."""

import json
import shutil
import subprocess
import sys
from functools import reduce
from operator import getitem
from pathlib import Path
from unittest import mock

import pytest

from axioms import check
from axioms.proofs.certificates import certify
from axioms.proofs.prove import THEOREMS

CHECKER = Path(check.__file__)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Certificates of theorem 6: of proofs by cases of signs, and of refutations."""
    folder = tmp_path_factory.mktemp("certificates")
    certify(THEOREMS / "test_linear.py", folder=folder)
    return folder


def test_a_checker_of_200_lines_that_sees_no_other_library_confirms_all(good):
    assert len(CHECKER.read_text("utf-8").splitlines()) <= 200
    alone = [sys.executable, "-I", "-S", CHECKER, good]  # neither SymPy nor this project
    done = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    told = (
        "5 proofs and 2 refutations confirmed, of which 7 rebuilt from graphs; not certified: none"
    )
    assert done.stdout == told + "\n"


def test_no_letter_of_a_certificate_is_obeyed(tmp_path):
    index = {"not certified": {"\x1b[31mred": "\u202e"}, "statements": [{"label": "\x9bx"}]}
    (tmp_path / "index.json").write_text(json.dumps(index), "utf-8")
    (tmp_path / "\x9bx.json").write_text("\x1b", "utf-8")
    alone = [sys.executable, "-I", "-S", CHECKER, tmp_path]
    done = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "�[31mred, since �" in done.stdout
    assert done.stdout.replace("\n", "").isprintable()


def test_a_checker_with_another_rule_establishes_nothing_of_it(tmp_path):
    twice = lambda s, x, w, *b: [check.scaled(check.Value(2), check.through(s, check.turned(w)))]
    with mock.patch.dict(check.SLOPES, linear=twice):
        *linear, of_a_sum = certify(THEOREMS / "test_linear.py", folder=tmp_path)
    assert all("axioms/check.py finds other relevance" in verdict.error for verdict in linear)
    assert (of_a_sum.verdict, of_a_sum.error) == ("proved", "")


def put(value, file, *path):
    """A change of one file: ``value`` where ``path`` leads, or what it makes of what is there."""

    def change(folder):
        place = folder / f"{file}.json"
        data = [json.loads(place.read_text("utf-8"))]
        *way, last = (0, *path)
        inner = reduce(getitem, way, data)
        inner[last] = value(inner[last]) if callable(value) else value
        place.write_text(json.dumps(data[0]), "utf-8")

    return change


def drop(*path):
    """A change that takes out what is there."""
    *way, last = path

    def left(data):
        if isinstance(data, dict):
            return {name: x for name, x in data.items() if name != last}
        return [x for n, x in enumerate(data) if n != last]

    return put(left, *way)


def put_formula(value, operation):
    """A change of the first formula of such an operation in the proof."""

    def change(formulas):
        place = next(n for n, e in enumerate(formulas) if e[0] == operation)
        return [value(e) if n == place else e for n, e in enumerate(formulas)]

    return put(change, *PROOF, "shared")


def write(file, content):
    content = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / f"{file}.json").write_bytes(content)


def link(folder):
    """Replaces a file by a link to a file elsewhere."""
    (folder / "6a.json").rename(folder.parent / "6a.json")
    (folder / "6a.json").symlink_to(folder.parent / "6a.json")


def cut(folder):
    text = (folder / "6a.json").read_text("utf-8")
    (folder / "6a.json").write_text(text[: len(text) // 2], "utf-8")


def rows(operands, op, count):
    """A graph of operations on 10**5 rows that are empty."""
    leaf = ["leaf", "", [], {"value": [[]] * 10**5}]
    return [leaf, *([op, "", [0] * operands, {}] for _ in range(count))]


PROOF, REFUTATION = ("6a", "runs", 0), ("6d", "runs", 0)
FIRST, LAYER, POINT = ((*PROOF, "decisions", 0), (*PROOF, "graphs", 0, 3),
                       (*REFUTATION, "decisions", 0))  # fmt: skip
FIRST_GRAPH = (*PROOF, "graphs", 0)
COUNTS, FOUND, CASES = "the index has", "are not what they come to", "not every case of signs"
STEPS = f"more than {check.STEPS} steps"
EQUAL, APART = "are not equal", "are not apart"
SHAPES, LISTED = "zip() argument", "it does not list every certificate"

TURNED = [put("refuted", *path, "verdict") for path in (["6a"], ["index", "statements", 0])]

CHANGES = {  # what is changed -> how, and why it is rejected
    # what is decided
    "an identity becomes a difference": (put("unequal", *FIRST, 0), "are not unequal"),
    "an identity becomes something else": (put("alike", *FIRST, 0), "are not alike"),
    "a side becomes another one": (put("r00", *FIRST, 1, 0), EQUAL),
    "both sides become one symbol": (put(["r00", "r00"], *FIRST, 1), FOUND),
    "what both sides come to gets a factor": (put(["2", "2"], *FIRST, 2), FOUND),
    "what one side comes to": (put("0", *FIRST, 2, 0), FOUND),
    "an identity is left out": (drop(*FIRST), CASES),
    "an identity is left out in every case": (
        put(lambda rows: [row for n, row in enumerate(rows) if n % 4], *PROOF, "decisions"),
        COUNTS,
    ),
    "an identity is there twice": (put(lambda rows: [rows[0], *rows], *FIRST[:-1]), CASES),
    "all identities are left out": (put([], *PROOF, "decisions"), "nonzero are not what"),
    "a case of signs is left out": (
        put(lambda rows: [row for row in rows if row[4] != [[1, -1]]], *PROOF, "decisions"),
        CASES,
    ),
    "a case of signs gets another name": (put([[1, -1]], *FIRST, 4), CASES),
    "a case of signs has a 2": (put([[2, 1]], *FIRST, 4), CASES),
    "a case of signs has no name": (put([], *FIRST, 4), CASES),
    "the runs are left out": (put([], "6a", "runs"), COUNTS),
    "a run is there twice": (put(lambda runs: runs * 2, "6a", "runs"), COUNTS),
    # graphs
    "a rule is exchanged": (put("epsilon-without-bias", *LAYER, 1), EQUAL),
    "a rule is exchanged for none": (put("", *LAYER, 1), EQUAL),
    "a rule has no such name": (put("gamma", *LAYER, 1), "KeyError: 'gamma'"),
    "an operation is exchanged": (put("add", *LAYER, 0), SHAPES),
    "an operation has no rule here": (put("convolution", *LAYER, 0), "KeyError"),
    "two edges are exchanged": (put([1, 0, 2], *LAYER, 2), SHAPES),
    "an edge is left out": (put([0, 1], *LAYER, 2), EQUAL),
    "an edge comes from nowhere": (put([0, 1, 9], *LAYER, 2), "KeyError: 9"),
    "an edge comes from its own node": (put([0, 1, 3], *LAYER, 2), "KeyError: 3"),
    "an edge is counted from the end": (put([0, 1, -1], *LAYER, 2), "KeyError: -1"),
    "the stabiliser is 0": (put([["0"]], *LAYER, 3, "eps"), EQUAL),
    "a sign is exchanged": (put([["1", "-1"]], *LAYER, 3, "sign"), EQUAL),
    "relevance starts exchanged": (put([["r01", "r00"]], *LAYER, 3, "relevance"), EQUAL),
    "relevance has another shape": (put([["r00"]], *LAYER, 3, "relevance"), SHAPES),
    "weights are transposed": (
        put([["w00", "w10"], ["w01", "w11"]], *LAYER[:-1], 1, 3, "value"),
        EQUAL,
    ),
    "an input is left out of a graph": (put([["x00", "0"]], *LAYER[:-1], 0, 3, "value"), EQUAL),
    "graphs are left out": (put([], *PROOF, "graphs"), "IndexError"),
    "an entry of relevance is another one": (
        put_formula(lambda e: [*e[:4], 1 - e[4]], "relevance"),
        EQUAL,
    ),
    "an entry of relevance is one of values": (
        put_formula(lambda e: ["value", *e[1:]], "relevance"),
        EQUAL,
    ),
    # formulas
    "a term gets a coefficient": (put_formula(lambda e: [*e, "3"], "*"), EQUAL),
    "a term changes its sign": (put_formula(lambda e: [*e, "-1"], "*"), EQUAL),
    "a term is left out": (put_formula(lambda e: e[:-1], "+"), EQUAL),
    "a power is another one": (put_formula(lambda e: ["^", e[1], -2], "^"), EQUAL),
    "a power is 0.5": (put_formula(lambda e: ["^", e[1], 0.5], "^"), "TypeError"),
    "a symbol is another one": (put_formula(lambda e: [*e[:-1], "x01"], "*"), EQUAL),
    "a symbol has no such name": (put_formula(lambda e: [*e[:-1], "y"], "*"), "KeyError: 'y'"),
    "a number is a float": (put_formula(lambda e: [*e, 1.0], "*"), "invalid literal for int"),
    "a number is not a number": (put_formula(lambda e: [*e, float("nan")], "*"), "TypeError"),
    "a number is 1/0": (put_formula(lambda e: [*e, "1/0"], "*"), "ZeroDivisionError"),
    "a divisor is 0": (put_formula(lambda e: ["^", "0", -1], "^"), "ZeroDivisionError"),
    "a formula has itself in it": (put(["+", 0, 1], *PROOF, "shared", 0), "RecursionError"),
    "a formula has no such operation": (put_formula(lambda e: ["-", *e[1:]], "*"), "KeyError: '-'"),
    # conditions
    "a divisor is not said to be nonzero": (drop(*PROOF, "nonzero", 0), "nonzero are not what"),
    "more is said to be nonzero": (put(lambda x: [*x, "1*y"], *PROOF, "nonzero"), "nonzero are"),
    "a symbol is taken from the table": (drop(*PROOF, "symbols", "x00"), "KeyError: 'x00'"),
    "a symbol is positive without need": (put("positive", *PROOF, "symbols", "x00"), "symbols are"),
    "an assumption is none": (put("large", *REFUTATION, "symbols", "x00"), "KeyError: 'large'"),
    # points
    "a point is another one": (put("2", *POINT, 3, "x00"), FOUND),
    "a point is ruled out": (put("-1", *POINT, 3, "x00"), "rules out the point"),
    "a point is written in decimals": (put(0.25, *POINT, 3, "epsilon"), "invalid literal for int"),
    "a point lacks a symbol": (drop(*POINT, 3, "x00"), APART),
    "a point has another symbol": (put("1", *POINT, 3, "y"), "KeyError: 'y'"),
    "both sides are equal at the point": (put([0, 0], *POINT, 1), APART),
    "a value at the point": (put("1/2", *POINT, 2, 0), FOUND),
    "both values at the point are equal": (put(["1", "1"], *POINT, 2), FOUND),
    "a difference at a point is one in general": (put("unequal", *POINT, 0), FOUND),
    # statements and files
    "a verdict is turned": (put("refuted", "6a", "verdict"), COUNTS),
    "a verdict is turned in the index too": (
        lambda folder: [turn(folder) for turn in TURNED],
        COUNTS,
    ),
    "a statement is another one": (put("All is well.", "6a", "statement"), COUNTS),
    "a statement has another number": (put("6b", "6a", "label"), COUNTS),
    "a statement is there twice": (put(lambda x: [x[0], *x], "index", "statements"), LISTED),
    "a statement is taken out of the index": (drop("index", "statements", 0), LISTED),
    "a count of the index": (put(17, "index", "statements", 0, "decisions", "equal"), COUNTS),
    "a file is gone": (lambda folder: (folder / "6a.json").unlink(), LISTED),
    "a file is cut off": (cut, "JSONDecodeError"),
    "a file is another one's": (
        lambda folder: shutil.copy(folder / "6b.json", folder / "6a.json"),
        COUNTS,
    ),
    "a file is not listed": (
        lambda folder: shutil.copy(folder / "6a.json", folder / "6z.json"),
        LISTED,
    ),
    "the index is empty": (put([], "index", "statements"), LISTED),
    "the index is a list": (write("index", "[1, 2]"), "TypeError"),
    "the index is no JSON": (write("index", "{"), "JSONDecodeError"),
    "the index is not UTF-8": (write("index", b"\xff"), "UnicodeDecodeError"),
    "the index lacks 'not certified'": (drop("index", "not certified"), "KeyError"),
    "the index has a text for a statement": (put("6a", "index", "statements", 0), "TypeError"),
    "a label is a list": (put(["6a"], "index", "statements", 0, "label"), LISTED),
    "a key is there twice": (write("6a", '{"label": "6b", "label": "6a"}'), "zip() argument 2"),
    # bounds
    "an exponent is huge": (put_formula(lambda e: ["^", "2", 10**10], "^"), "at (2)^10000000000"),
    "an exponent of a symbol is huge": (
        put_formula(lambda e: ["^", e[1], -(10**10)], "^"),
        "at (1)^-10000000000",
    ),
    "exponents are nested": (
        put_formula(lambda e: reduce(lambda x, n: ["^", x, 50], range(9), "3"), "^"),
        "(4300 digits)",
    ),
    "a power of a sum is multiplied out": (
        put_formula(lambda e: [*e, ["^", ["+", "x00", "w00", "x01", "r00"], 200]], "+"),
        STEPS,
    ),
    "a number is written with an exponent": (
        put_formula(lambda e: [*e, "1e999999999"], "*"),
        "invalid literal for int() with base 10: '1e999999999'",
    ),
    "a number has 5000 digits": (put_formula(lambda e: [*e, "9" * 5000], "*"), "(4300 digits)"),
    "a file is nested 99999 deep": (write("6a", "[" * 99999), "RecursionError"),
    "a matrix has a million entries": (
        put(lambda m: m | {"value": [["0"] * 1000] * 1000}, *LAYER[:-1], 0, 3),
        STEPS,
    ),
    "a matrix has many rows without entries": (put(rows(1, "add", 9), *FIRST_GRAPH), STEPS),
    "a sum has many operands without entries": (put(rows(9, "add", 1), *FIRST_GRAPH), STEPS),
    "there are 64 signs": (put([[1] * 64], *FIRST, 4), STEPS),
    "a file has too many bytes": (write("6a", " " * (check.BYTES + 1)), "['6a.json'] are links"),
    "a file is a link": (link, "['6a.json'] are links"),
    "a statement is at another place": (
        put("../changed/6a", "index", "statements", 0, "label"),
        LISTED,
    ),
}


def test_the_page_says_how_many_changes_are_rejected():
    page = (CHECKER.parents[1] / "docs" / "TRUST.md").read_text("utf-8")
    assert f"They reject each of {len(CHANGES)} changed certificates." in page


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_rejected_by_name(what, good, tmp_path):
    change, reason = CHANGES[what]
    folder = shutil.copytree(good, tmp_path / "changed")
    change(folder)
    errors, _ = check.check(folder)
    assert any(reason in error for error in errors), errors
    assert {error.partition(":")[0] for error in errors} <= {"6a", "6d", "index.json"}
