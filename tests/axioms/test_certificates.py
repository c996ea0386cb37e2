"""The checker confirms a certificate as it was written, and none that was changed afterwards."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from axioms import check
from axioms.evidence.certificates import certify
from axioms.evidence.statements import THEOREMS
from tests.support import changed_certificates
from tests.support.changed_certificates import LAYER, PROOF, drop, negated, put, put_formula

CHECKER = Path(check.__file__)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Certificates of theorem 6: of proofs by cases of signs, and of refutations."""
    folder = tmp_path_factory.mktemp("certificates")
    certify(THEOREMS / "test_linear.py", folder=folder)
    return folder


def checked_alone(folder):
    """Runs the checker where neither SymPy nor this project can be imported."""
    alone = [sys.executable, "-I", "-S", CHECKER, folder]
    return subprocess.run(alone, capture_output=True, text=True, check=False)


def test_a_checker_of_200_lines_that_sees_no_other_library_confirms_all(good):
    assert len(CHECKER.read_text("utf-8").splitlines()) <= 200
    done = checked_alone(good)
    assert (done.returncode, done.stderr) == (0, "")
    told = "5 proofs and 2 refutations confirmed, of which 7 from graphs"
    assert done.stdout == f"{told}; not certified: none\n"


def test_no_letter_of_a_certificate_is_obeyed(tmp_path):
    index = {"not certified": {"\x1b[31mred": "\u202e"}, "statements": [{"label": "\x9bx"}]}
    (tmp_path / "index.json").write_text(json.dumps(index), "utf-8")
    (tmp_path / "\x9bx.json").write_text("\x1b", "utf-8")
    done = checked_alone(tmp_path)
    assert done.returncode == 1
    assert "�[31mred, since �" in done.stdout
    assert done.stdout.replace("\n", "").isprintable()


def test_a_checker_with_another_rule_establishes_nothing_of_it(tmp_path):
    right = check.around
    twice = lambda xs, k, s: check.scaled(check.Value(2), right(xs, k, s))
    with mock.patch.object(check, "around", twice):
        *linear, of_a_sum = certify(THEOREMS / "test_linear.py", folder=tmp_path)
    said = ("axioms/check.py finds other", "are not equal")
    assert all(any(part in verdict.error for part in said) for verdict in linear)
    assert (of_a_sum.verdict, of_a_sum.error) == ("proved", "")


STEP = """
import sympy as sp
from axioms.evidence.writer import References, Writer
writer = Writer(References())
more = {name: sp.Symbol(name) + 1 for name in ("value", "scale", "relevance", "eps")}
print(writer._step(("bilinear", "epsilon", [0, 1], more)), vars(writer))
"""


def test_certificates_do_not_depend_on_the_order_of_sets():
    texts = set()
    for seed in "012":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        texts.add(subprocess.check_output([sys.executable, "-c", STEP], env=env))
    assert len(texts) == 1


def write(file, content):
    content = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / f"{file}.json").write_bytes(content)


def link(folder):
    """Replaces a file by a link to a file elsewhere."""
    (folder / "6a.json").rename(folder.parent / "6a.json")
    (folder / "6a.json").symlink_to(folder.parent / "6a.json")


def rows(operands, op, rule, count):
    """A graph of operations on 10**5 rows that are empty."""
    leaf = ["input", "none", [], {"value": [[]] * 10**5}]
    return [leaf, *([op, rule, [0] * operands, {"eps": "0"}] for _ in range(count))]


def written(old, new):
    """Replaces a part of the text of the proof."""

    def change(folder):
        text = (folder / "6a.json").read_text("utf-8")
        assert old in text
        (folder / "6a.json").write_text(text.replace(old, new), "utf-8")

    return change


INDEX, LISTED = "the index has", "it does not list every"
STEPS = f"more than {check.STEPS} steps"
CHANGES = changed_certificates.CHANGES | {
    # statements and files
    "a verdict is turned": (put("refuted", "6a", "verdict"), INDEX),
    "a verdict is turned in the index too": (lambda folder: [put("refuted", *at, "verdict")(folder)
        for at in (["6a"], ["index", "statements", 0])], "undecided"),
    "a verdict is no verdict": (put("certain", "index", "statements", 0, "verdict"), INDEX),
    "a statement is another one": (put("All is well.", "6a", "statement"), INDEX),
    "a statement has another number": (put("6b", "6a", "label"), INDEX),
    "a statement is there twice": (put(lambda x: [x[0], *x], "index", "statements"), LISTED),
    "a statement is taken out of the index": (drop("index", "statements", 0), LISTED),
    "a file is gone": (lambda folder: (folder / "6a.json").unlink(), LISTED),
    "a file is cut off": (write("6a", '{"label": "6a", "runs": ['), "JSONDecodeError"),
    "a file is another one's": (lambda folder: shutil.copy(folder / "6b.json", folder / "6a.json"),
        INDEX),
    "a file is not listed": (lambda folder: shutil.copy(folder / "6a.json", folder / "6z.json"),
        LISTED),
    "the index is empty": (put([], "index", "statements"), LISTED),
    "the index is a list": (write("index", "[1, 2]"), "TypeError"),
    "the index is no JSON": (write("index", "{"), "JSONDecodeError"),
    "the index is not UTF-8": (write("index", b"\xff"), "UnicodeDecodeError"),
    "the index lacks 'not certified'": (drop("index", "not certified"), "KeyError"),
    "the index has a text for a statement": (put("6a", "index", "statements", 0), "TypeError"),
    "a label is a list": (put(["6a"], "index", "statements", 0, "label"), LISTED),
    "a key is there twice": (write("6a", '{"label": "6b", "label": "6a"}'), "zip() argument 2"),
    "a symbol is there twice": (written('"epsilon": "positive"',
        '"epsilon": "", "epsilon": "positive"'), "zip() argument 2"),
    # bounds
    "an exponent is huge": (put_formula(lambda e: ["^", e[1], 10**10], "^"), STEPS),
    "an exponent is huge and below 0": (put_formula(lambda e: ["^", e[1], -(10**10)], "^"),
        "at (1)^-10000000000"),
    "a power of a sum is multiplied out": (put_formula(lambda e: ["^", 2, 200], "^"), STEPS),
    "a number is written with an exponent": (put_formula(lambda e: [*e, "1e999999999"], "*"),
        "KeyError: '1e999999999'"),
    "a number has 5000 digits": (put_formula(lambda e: [*e, "9" * 5000], "*"), "(4300 digits)"),
    "a file is nested 99999 deep": (write("6a", "[" * 99999), "RecursionError"),
    "a matrix is nested 999 deep": (written('[["x00", "x01"]]', "[" * 999 + '"x00"' + "]" * 999),
        "RecursionError"),
    "a matrix has a million entries": (put(lambda m: m | {"value": [["0"] * 1000] * 1000},
        *LAYER[:-1], 0, 3), STEPS),
    "a matrix has many rows without entries": (
        put(rows(1, "add", "epsilon", 99), *PROOF, "graphs", 0), STEPS),
    "a sum has many operands without entries": (
        put(rows(99, "add", "epsilon", 1), *PROOF, "graphs", 0), STEPS),
    "many runs are each within the bound": (put(lambda runs: [dict(run,
        run=str(n)) for n in range(20000) for run in runs[:1]], "6a", "runs"),
        "are links or too large"),
    "a file has too many bytes": (write("6a", " " * (check.BYTES + 1)), "['6a.json'] are links"),
    "a file is a link": (link, "['6a.json'] are links"),
    "a statement is at another place": (put("../changed/6a", "index", "statements", 0, "label"),
        LISTED),
}  # fmt: skip


def test_the_negation_of_a_sum_that_is_not_0_is_confirmed(good, tmp_path):
    folder = shutil.copytree(good, tmp_path / "changed")
    negated(["1*sign[1*x] + 1*x", "1*x"])(folder)
    assert check.check(folder)[0] == []


def test_the_page_says_how_many_changes_are_rejected():
    page = (CHECKER.parents[1] / "docs" / "TRUST.md").read_text("utf-8")
    assert f"The checker rejects each of {len(CHANGES)} changed certificates" in page


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_rejected_by_name(what, good, tmp_path):
    change, reason = CHANGES[what]
    folder = shutil.copytree(good, tmp_path / "changed")
    change(folder)
    errors, _ = check.check(folder)
    assert any(reason in error for error in errors), errors
    assert {error.partition(":")[0] for error in errors} <= {"6a", "6d", "index.json"}
