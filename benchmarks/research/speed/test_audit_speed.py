"""The audit of a BERT of base size on 64 tokens: seconds and memory of a process of its own.

Run by `make bench`.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS, CAPTURE_SECONDS, GIBIBYTES = 60, 5, 6  # of the first audit, in a fresh process
ROUNDS = 5  # of ratios, after it

AUDIT = """
import json, resource, sys
import torch
from transformers import BertConfig, BertForSequenceClassification
from lrp_axioms import audit

torch.manual_seed(0)
config = BertConfig(attn_implementation="eager")
model = BertForSequenceClassification(config).eval()
inputs = {"input_ids": torch.randint(1000, 30000, (1, 64))}
found = audit(model, inputs)
gibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

from lrp_axioms.benchmarks.running.timing import alternate, plain_gradient

text = inputs | {"attention_mask": torch.ones_like(inputs["input_ids"])}
seconds = alternate(
    {"audit": lambda: audit(model, inputs), "gradient": lambda: plain_gradient(model, text)},
    repeats=int(sys.argv[1]),
)
print(json.dumps({
    "seconds": dict(found.seconds),
    "gibibytes": gibibytes,
    "gap": abs(sum(found.by_cause().values()) - found.residual),
    "forward_error": found.forward_error,
    "operations": len(found.ledger.lines),
    "ratios": [a / b for a, b in zip(seconds["audit"], seconds["gradient"], strict=True)],
}))
"""


def measured():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AUDIT, str(ROUNDS)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.usefixtures("only_when_timed")
def test_a_bert_of_base_size_is_audited_within_a_minute(benchmark, ratios):
    found = benchmark.pedantic(measured, rounds=1)
    benchmark.extra_info.update(found)
    assert found["gap"] <= 1e-9
    assert found["forward_error"] <= 1e-4
    assert found["operations"] == 174
    assert found["seconds"]["capture"] < CAPTURE_SECONDS
    assert sum(found["seconds"].values()) < SECONDS
    assert found["gibibytes"] < GIBIBYTES
    ratios.note("audit / gradient", found["ratios"], group="audit")
