"""A target means the same for every method, for plain autograd, and for plain loops."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT
from numeric import attribute, attribute_each, audit, evaluate, propagation
from numeric.evaluation.patching import patching
from numeric.evaluation.softmax_errors import softmax_errors
from numeric.targets import answer, log_probability, logit, span
from numeric.targets.readout import read
from tests.census.build import ANSWERS, MASKED, TAGS, with_inputs
from tests.census.build import CAUSAL as NEXT
from tests.census.measure import without_shifts
from tests.support import cases
from tests.support.cases import close
from tests.support.heads import write_heads
from tests.support.loops import left_out
from tests.support.traces import contains, refused, watch

pytestmark = pytest.mark.usefixtures("float64")
LAST = [7, 5]  # of the two texts, the second padded on the right
BOTH = torch.arange(2)


def made(name, task):
    model, batch = with_inputs(name, task)
    if task == MASKED:
        batch["input_ids"][BOTH, [3, 2]] = model.config.mask_token_id = 9
    return model, batch


def row(columns):
    return lambda out, _ids: out.logits[BOTH, columns]


def at(columns, label):
    return lambda out, ids: row(columns)(out, ids)[BOTH, label]


def log_at(columns, label):
    return lambda out, ids: row(columns)(out, ids).log_softmax(dim=-1)[BOTH, label]


def of_span(first, end, function):
    """Sums over each text's own tokens, from the row before."""
    return lambda out, ids: sum(
        function([n - 1] * 2, ids[:, n])(out, ids) for n in range(first, end)
    )


def ends(first, last):
    return lambda out, _ids: out.start_logits[BOTH, first] + out.end_logits[BOTH, last]


def log_start(token):
    def found(out, _ids):
        first, second = out.start_logits[0], out.start_logits[1, :6]
        return torch.stack([x.log_softmax(dim=0)[token] for x in (first, second)])

    return found


CASES = {  # architecture, task, target, the same by hand
    "the token that follows": ("llama", NEXT, 7, at(LAST, 7)),
    "tokens that follow": ("gpt2", NEXT, [7, 9], at(LAST, [7, 9])),
    "a token at a column": ("llama", NEXT, logit(7, at=3), at([3, 3], 7)),
    "columns from the end": ("llama", NEXT, logit(7, at=-2), at([6, 4], 7)),
    "tokens at columns": ("gpt2", NEXT, logit([7, 9], at=[2, 4]), at([2, 4], [7, 9])),
    "a log-probability": ("llama", NEXT, log_probability(7, at=3), log_at([3, 3], 7)),
    "a contrast": (
        "gpt2", NEXT, logit(7) - logit(9), lambda *x: at(LAST, 7)(*x) - at(LAST, 9)(*x),
    ),
    "a span": ("llama", NEXT, span(2, 5), of_span(2, 5, at)),
    "the span of a log-probability": (
        "gpt2", NEXT, span(2, 5, each=log_probability), of_span(2, 5, log_at),
    ),
    "the mask": ("bert", MASKED, 7, at([3, 2], 7)),
    "a masked model elsewhere": ("bert", MASKED, logit(7, at=4), at([4, 4], 7)),
    "a tag": ("bert", TAGS, logit(2, at=4), at([4, 4], 2)),
    "an answer": ("bert", ANSWERS, answer(2, 4), ends(2, 4)),
    "half a start": (
        "bert", ANSWERS, 0.5 * logit(3, of="start"), lambda out, _: out.start_logits[:, 3] / 2,
    ),
    "log-probability of a start": (
        "bert", ANSWERS, log_probability(3, of="start"), log_start(3),
    ),
}  # fmt: skip

every_case = pytest.mark.parametrize("case", CASES)


@every_case
def test_its_gradient_is_that_of_the_number_by_hand(case):
    name, task, target, by_hand = CASES[case]
    model, batch = made(name, task)
    seen = []
    with watch(model.get_input_embeddings(), seen.append):
        number = by_hand(model(**batch), batch["input_ids"])
    (gradient,) = torch.autograd.grad(number.sum(), seen)
    found = attribute(model, batch, GRADIENT_X_INPUT, target, share="word")
    close(found.logit, number.detach())
    close(found.relevance, (seen[0] * gradient).sum(-1).detach() * batch["attention_mask"])


@every_case
def test_leaving_a_token_out_changes_the_number_by_hand(case):
    name, task, target, by_hand = CASES[case]
    model, batch = made(name, task)
    want = left_out(batch, lambda given: by_hand(model(**given), given["input_ids"]))
    close(attribute(model, batch, "loo", target, batch_size=5).relevance, want)


@pytest.mark.parametrize("case", ["a contrast", "the span of a log-probability", "a tag"])
def test_integrated_gradients_add_up_to_its_change(case):
    name, task, target, by_hand = CASES[case]
    model, batch = made(name, task)
    batch = {key: x[:1].expand(2, -1) for key, x in batch.items()}  # without padding
    found = attribute(model, batch, "integrated-gradients", target, steps=300)
    words = torch.zeros_like(model.get_input_embeddings()(batch["input_ids"]))
    with torch.no_grad():
        start = model(inputs_embeds=words, attention_mask=batch["attention_mask"])
    change = found.logit - by_hand(start, batch["input_ids"])
    close(found.relevance[0].sum(), change[0], tolerance=1e-6)


# Predictions


def test_what_is_predicted_is_the_default():
    for name, task, rows in [("llama", NEXT, row(LAST)), ("bert", MASKED, row([3, 2]))]:
        model, batch = made(name, task)
        want = rows(model(**batch), None).max(dim=1)
        found = attribute(model, batch)
        assert found.target.tolist() == want.indices.tolist()
        close(found.logit, want.values.detach())
    model, batch = made("bert", ANSWERS)
    out = model(**batch)
    found = attribute(model, batch)
    for end, logits in enumerate((out.start_logits, out.end_logits)):
        likeliest = [logits[0].argmax().item(), logits[1, :6].argmax().item()]
        assert found.target[:, end].tolist() == likeliest


def test_a_regression_has_one_output():
    model = cases.tiny_bert(num_labels=1)
    batch = cases.tiny_batch()
    found = attribute(model, batch)
    close(found.logit, model(**batch).logits[:, 0].detach())
    assert found.target.tolist() == [0, 0]
    contains(refused(ValueError, model, batch, target=log_probability(0)), "no distribution")


def test_padding_on_the_left_moves_no_column_from_the_end():
    model, batch = made("llama", NEXT)  # a text may begin anywhere
    short = {key: x[1:, :6] for key, x in batch.items()}
    padded = {key: x[1:].roll(2, 1) for key, x in batch.items()}
    for target in (logit(7, at=-2), span(-3), None):
        want, found = (attribute(model, x, "cp-lrp", target) for x in (short, padded))
        close(found.logit, want.logit)
        close(found.relevance[:, 2:], want.relevance)


# Many targets


SEVERAL = [logit(7, at=3), log_probability(9), span(2, 5)]


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "gradient-x-input", "loo"])
def test_the_map_of_a_sum_is_the_sum_of_the_maps(method):
    model, batch = made("llama", NEXT)
    found = attribute_each(model, batch, method, targets=SEVERAL)
    for each, target in zip(found, SEVERAL, strict=True):
        alone = attribute(model, batch, method, target)
        close(each.relevance, alone.relevance)
        close(each.logit, alone.logit)
    whole = attribute(model, batch, method, sum(SEVERAL))
    close(whole.relevance, sum(each.relevance for each in found))


def test_integrated_gradients_of_several_targets_are_those_of_each():
    model, batch = made("bert", TAGS)
    targets = [logit(2, at=4), logit(0, at=1) - logit(1, at=1)]
    found = attribute_each(model, batch, "integrated-gradients", targets=targets, steps=3)
    for each, target in zip(found, targets, strict=True):
        alone = attribute(model, batch, "integrated-gradients", target, steps=3)
        close(each.relevance, alone.relevance)
        close(each.details["completeness_gap"], alone.details["completeness_gap"])


def test_many_maps_take_one_forward_pass_and_only_the_rows_that_are_read():
    model, batch = made("llama", NEXT)
    rows = []
    with watch(model.lm_head, lambda out: rows.append(out.shape[1])):
        attribute_each(model, batch, targets=[logit(7, at=n) for n in (1, 3, 4)])
        attribute(model, batch)
    assert rows == [3, 2]


def test_rollout_is_of_the_row_that_is_read():
    model, batch = made("gpt2", NEXT)
    one = cases.first(batch)
    short = {key: x[:, :4] for key, x in one.items()}
    found = attribute(model, one, "attention-rollout", logit(7, at=3)).relevance
    close(found[:, :4], attribute(model, short, "attention-rollout", 7).relevance)
    message = refused(ValueError, model, one, "attention-rollout", target=span(2, 5))
    contains(message, "several tokens", "GPT2LMHeadModel")


# Conservation


def entropy(logits):
    return -(logits.softmax(dim=-1) * logits.log_softmax(dim=-1)).sum(dim=-1)


def test_what_adds_nothing_keeps_logits_and_loses_the_entropy_of_log_probabilities():
    model, batch = made("llama", NEXT)
    with without_shifts(model):
        for target in (logit(7, at=3), logit(7) - logit(9), span(2, 5)):
            found = attribute(model, batch, "cp-lrp", target)
            close(found.relevance.sum(dim=1), found.logit)
        found = attribute(model, batch, "cp-lrp", log_probability(7, at=3) - logit(9))
        close(found.residual, -entropy(model(**batch).logits[:, 3]).detach())


@pytest.mark.parametrize(
    "case", ["the span of a log-probability", "an answer", "a tag", "the mask"]
)
def test_the_audit_accounts_for_it(case):
    name, task, target, _ = CASES[case]
    model, batch = made(name, task)
    one = cases.first(batch)
    for composite in (ATTNLRP, CP_LRP):
        found = audit(model, one, composite, target=target)
        want = attribute(model, one, composite, target)
        close(torch.from_numpy(found.relevance), want.relevance[0])
        assert found.logit == pytest.approx(want.logit.item())
        assert sum(found.by_cause().values()) == pytest.approx(found.residual)
        if "log" in case:
            out = model(**one).logits[0, 1:4]
            assert found.by_cause()["log-softmax"] == pytest.approx(-entropy(out).sum().item())


def test_code_of_ones_own_reads_it_from_an_output():
    model, batch = made("bert", ANSWERS)
    seen = []
    with propagation(model, "cp-lrp"):
        words = model.get_input_embeddings()(batch["input_ids"]).requires_grad_()
        output = model(inputs_embeds=words, attention_mask=batch["attention_mask"])
        number = read(model, batch, output, answer(2, 4))
        seen.append(torch.autograd.grad(number.sum(), words)[0])
    want = attribute(model, batch, "cp-lrp", answer(2, 4))
    close(number.detach(), want.logit)
    word = attribute(model, batch, "cp-lrp", answer(2, 4), share="word")
    relevance = (words * seen[0]).sum(-1).detach() * batch["attention_mask"]
    close(relevance, word.relevance)


NUMBERS = {
    "read": lambda model, inputs, **given: read(model, inputs, model(**inputs), **given),
    "patching": lambda model, inputs, **given: patching(
        model, inputs, None, {"attnlrp": "attnlrp"}, **given
    ).predicted["attnlrp"]["MLP output"],
    "softmax errors": lambda *given, **named: softmax_errors(*given, **named).value_r,
    "evaluate": lambda model, inputs, **given: np.nan_to_num(
        [*evaluate(model, inputs, inputs["input_ids"], **given)["relevance"].values()], nan=-9.0
    ),
}


@pytest.mark.parametrize("asked", NUMBERS)
def test_a_tokenizer_names_the_target_and_the_mask_for_every_question(asked, checkpoint, tmp_path):
    folder = write_heads(checkpoint, tmp_path) / "masked"
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = dict(tokenizer(["a [MASK] film"], return_tensors="pt"))
    by_name = NUMBERS[asked](model, inputs, target="fine", tokenizer=tokenizer)
    column = logit(tokenizer.convert_tokens_to_ids("fine"), at=2)
    close(torch.as_tensor(by_name), torch.as_tensor(NUMBERS[asked](model, inputs, target=column)))


def test_numbers_of_labels_may_be_spelled_as_in_a_json_file():
    model, inputs = cases.family("bert")
    model.config.id2label = {"0": "bad", "1": "good", "2": "dull"}
    found = attribute(model, inputs, target="good")
    assert torch.equal(found.relevance, attribute(model, inputs, target=1).relevance)
