"""The audit of a BERT of base size on 64 tokens: seconds and memory of a process of its own.

Run by `make bench`.
"""

import json
import subprocess
import sys

import pytest

SECONDS, CAPTURE_SECONDS, GIBIBYTES = 60, 5, 6

AUDIT = """
import json, resource
import torch
from transformers import BertConfig, BertForSequenceClassification
from numeric import audit

torch.manual_seed(0)
config = BertConfig(attn_implementation="eager")
model = BertForSequenceClassification(config).eval()
found = audit(model, {"input_ids": torch.randint(1000, 30000, (1, 64))})
print(json.dumps({
    "seconds": dict(found.seconds),
    "gibibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    "gap": abs(sum(found.by_cause().values()) - found.residual),
    "forward_error": found.forward_error,
    "operations": len(found.ledger.lines),
}))
"""


def measured():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AUDIT], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_a_bert_of_base_size_is_audited_within_a_minute(benchmark, request):
    option = request.config.getoption
    if option("benchmark_disable") and not option("benchmark_enable"):
        pytest.skip("seconds need an idle machine; `make bench` measures them")
    found = benchmark.pedantic(measured, rounds=1)
    benchmark.extra_info.update(found)
    assert found["gap"] <= 1e-9
    assert found["forward_error"] <= 1e-4
    assert found["operations"] == 174
    assert found["seconds"]["capture"] < CAPTURE_SECONDS
    assert sum(found["seconds"].values()) < SECONDS
    assert found["gibibytes"] < GIBIBYTES
