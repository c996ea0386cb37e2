"""Numbers too large to compute with are refused at once; other large numbers are used."""

import json
import subprocess
import sys

import pytest

SETUP = """
import json, resource
resource.setrlimit(resource.RLIMIT_DATA, (4 * 2**30,) * 2)
from numeric import attribute
from numeric.evaluation import perturbation
from numeric.evaluation.faithfulness import evaluate
from numeric.models.inputs import prepare
from numeric.targets import logit, span
from tests.support import cases
model, batch = cases.tiny_bert(), cases.tiny_batch()
relevance = attribute(model, batch, target=0).relevance
curves = lambda chunk: perturbation.perturbation_curves(
    model, prepare(model, batch), [relevance], 0, chunk=chunk
)
for call in json.loads(input()):
    try:
        said = "" if eval(call) else "nothing"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)
"""
CALLS = {
    "span(1, 2**70)": "ValueError: span(1, 1180591620717411303424): pass at most 65536 columns",
    "span(-2**70)": "ValueError: span(-1180591620717411303424, None): pass at most 65536 columns",
    "span(2**70, 2**70 + 2)": "ValueError: at=1180591620717411303423: pass None, an int",
    "attribute(model, batch, at='a' + '*' * 12 + 'x')": "ValueError: at='a************x' is no mo",
    "attribute(model, batch, at='b' + '*e' * 20)": "ValueError: at='b*e*e",
    "attribute(model, batch, 'integrated-gradients', steps=10**6)": "ValueError: steps=1000000: pa",
    "attribute(model, batch, 'loo', budget=10**20)": "ValueError: budget=100000000000000000000: ",
    "attribute(model, batch, 'loo', budget=10**18)": "",
    "attribute(model, batch, 'budgeted-loo', budget=10**18)": "",
    "attribute(model, batch, 'loo', groups=10**18, budget=4)": "ValueError: groups: all",
    "curves(10**12)": "",
    "evaluate(model, batch, relevance, subsets=10**10, samples=10**10)":
        "ValueError: subsets=10000000000, samples=10000000000: pass a whole number",
}  # fmt: skip
PIPES = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | {"text": True}


@pytest.fixture(scope="module")
def said():
    """The error of each call, from another process, so that an endless call stops no test."""
    command, calls = [sys.executable, "-c", SETUP], json.dumps(list(CALLS))
    with subprocess.Popen(command, **PIPES) as started:
        try:
            out, err = started.communicate(calls, timeout=120)
        except subprocess.TimeoutExpired:
            started.kill()
            out, err = started.communicate()
    return dict(zip(CALLS, map(json.loads, out.splitlines()), strict=False)), err


@pytest.mark.parametrize("call", CALLS)
def test_a_call_ends_with_what_a_user_can_mend(said, call):
    found, err = said
    assert call in found, err
    assert found[call].startswith(CALLS[call])
    assert bool(found[call]) == bool(CALLS[call])
