"""Errors of commands advise options, and no arguments of Python."""

import ast
from pathlib import Path

import pytest

from benchmarks.commands.advice import INSTEAD, of_command

NUMERIC = Path(__file__).parents[2] / "numeric"


def texts():
    """All texts in the library, with its values as "{}"."""
    for path in NUMERIC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(getattr(x, "value", "{}")) for x in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize("advice", INSTEAD)
def test_the_advice_is_the_library_s(advice):
    first = advice.removesuffix("load the model in float32") or advice
    assert any(first in text for text in texts())


def test_a_command_passes_on_no_argument_of_python(run):
    for call, says in (
        (("explain", "embedded", "[CLS] film [SEP]"), "remove them from the text\n"),
        (("audit", "embedded", "[CLS] film [SEP]"), "remove them from the text\n"),
    ):
        code, _, err = run(*call)
        assert (code, says in err) == (2, True), err
        assert "attribute" not in err
    assert of_command("x; pass epsilon=1e-6, or load the model in float32") == (
        "x; pass --dtype float32, or another --method"
    )
