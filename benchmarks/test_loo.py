"""Exact Leave-One-Out against Captum's FeatureAblation: right answers, then ratios of time.

BERT-base size with random weights.  ``make bench`` measures; where Captum is missing the cases
are skipped by name.  The ordinary test run compares the answers on two layers, without timing.
"""

import statistics
import time
import warnings

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from numeric import attribute

AT_ONCE = (1, 4, 16)
"""Captum's ``perturbations_per_eval``: its default, and larger ones, of which the best counts."""
EQUAL, MIXED = [32] * 8, [8, 16, 24, 32, 40, 48, 56, 64]
TOLERANCE = 1e-5  # logits, in float32
ROUNDS = 3


@pytest.fixture(scope="module")
def captum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other library, at import
        return pytest.importorskip("captum.attr", reason="captum is in the group 'peers'")


@pytest.fixture(scope="module")
def timed(request):
    option = request.config.getoption
    return bool(not option("benchmark_disable") or option("benchmark_enable"))


@pytest.fixture(scope="module")
def bert(timed):
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(num_hidden_layers=12 if timed else 2)).eval()


def text(lengths):
    """Token ids without meaning, padded on the right: time depends on shapes alone."""
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 30000, (len(lengths), max(lengths)), generator=drawn)
    mask = (torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def ours(model, inputs):
    return attribute(model, inputs, "loo").relevance


@torch.inference_mode()
def by_captum(captum, model, inputs, at_once):
    """Each column of the attention mask set to 0, the only feature; the class as predicted."""
    ids, mask = inputs["input_ids"], inputs["attention_mask"]

    def forward(kept, ids):
        return model(input_ids=ids, attention_mask=kept.long()).logits

    found = captum.FeatureAblation(forward).attribute(
        mask.float(),
        target=forward(mask, ids).argmax(dim=1),
        additional_forward_args=(ids,),
        perturbations_per_eval=at_once,
    )
    return found * mask


def alternate(functions, *, rounds):
    """Seconds of this process's own work, in turn; the first round warms up."""
    seconds = {name: [] for name in functions}
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    for n in range(rounds + 1):
        for name, function in functions.items():
            start = clock()
            function()
            if n:
                seconds[name].append(clock() - start)
    return {name: statistics.median(s) for name, s in seconds.items()}


@pytest.mark.parametrize("lengths", [EQUAL, MIXED], ids=["equal", "mixed"])
def test_the_answers_are_captums(captum, bert, lengths):
    inputs = text([n // 4 for n in lengths])
    want = by_captum(captum, bert, inputs, 4)
    torch.testing.assert_close(ours(bert, inputs), want, rtol=0, atol=TOLERANCE)
    assert want.abs().max() > 100 * TOLERANCE


@pytest.mark.parametrize(
    ("lengths", "bounds"),
    [(EQUAL, {"default": 1.5, "best": 1.15}), (MIXED, {"best": 2.0})],
    ids=["equal", "mixed"],
)
def test_leave_one_out_is_ahead_of_captum(captum, bert, timed, lengths, bounds, benchmark, capsys):
    if not timed:
        pytest.skip("a ratio of times needs an idle machine; `make bench` measures it")
    inputs = text(lengths)
    run = {n: lambda n=n: by_captum(captum, bert, inputs, n) for n in AT_ONCE}
    run["ours"] = lambda: ours(bert, inputs)
    torch.testing.assert_close(run["ours"](), run[4](), rtol=0, atol=TOLERANCE)
    seconds = benchmark.pedantic(alternate, (run,), {"rounds": ROUNDS}, rounds=1)
    own = seconds.pop("ours")
    ratio = {"default": seconds[1] / own, "best": min(seconds.values()) / own}
    benchmark.extra_info["captum / ours"] = ratio
    with capsys.disabled():
        print(f"\ncaptum / ours, {len(lengths)} texts of {min(lengths)} to {max(lengths)}: {ratio}")
    assert {name: r for name, r in ratio.items() if r < bounds.get(name, 0)} == {}
