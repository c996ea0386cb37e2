"""Errors of commands advise options, and no arguments of Python."""

import ast
from pathlib import Path

import pytest

from benchmarks.commands.advice import INSTEAD, of_command
from numeric.methods.shapley import _check_samples

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


PASSED_ON = {
    "x; pass epsilon=1e-6, or load the model in float32": (
        "x; pass another --method, or a wider --dtype"
    ),
    "text 1, 2: budget=1: too few; pass a larger budget, or larger groups\ntarget='a': no class": (
        "text 1, 2: --budget 1: too few; pass a larger --budget\n--target 'a': no class"
    ),
    "a text with target=3 in it": "a text with target=3 in it",
    "k keeps another call: method is 'a', and was 'b'; max_new_tokens is 3, and was 2": (
        "k keeps another call: --method is 'a', and was 'b'; --generate is 3, and was 2"
    ),
    "the contrast is the target itself": "the contrast is the target itself",
    "no return; set model.config.return_dict = True": (
        "no return; set return_dict = True in the model's config.json"
    ),
}


def test_too_long_a_text_for_shapley_is_told_of_without_its_arguments():
    with pytest.raises(ValueError, match="fixed") as raised:
        _check_samples([1100], 4096)
    assert of_command(str(raised.value)) == (
        "--method shapley takes 4096 forward passes, too few for 1100 tokens; pass a shorter text, "
        "or another --method"
    )


def test_a_command_passes_on_no_argument_of_python(run):
    for call, says in (
        (("explain", "embedded", "[CLS] film [SEP]"), "remove them from the text\n"),
        (("audit", "embedded", "[CLS] film [SEP]"), "remove them from the text\n"),
    ):
        code, _, err = run(*call)
        assert (code, says in err) == (2, True), err
        assert "attribute" not in err
    for said, instead in PASSED_ON.items():
        assert of_command(said) == instead
