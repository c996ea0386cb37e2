"""Methods besides LRP on models that no record describes, each against a plain loop."""

import pytest
import torch

from numeric import attribute
from numeric.methods.memory_budget import bytes_of_a_copy
from numeric.models import families
from numeric.targets import logit
from tests.census.build import CAUSAL, CLASSES, with_inputs
from tests.support import cases
from tests.support.cases import close
from tests.support.loops import hide, left_out, replace
from tests.support.traces import contains, refused, watch

pytestmark = pytest.mark.usefixtures("float64")
CLASSIFIERS = [
    "modernbert", "xlnet", "gpt_neox", "phi3", "gemma3_text", "mixtral", "bloom", "falcon", "bart",
    "perceiver",
]  # fmt: skip
LANGUAGE_MODELS = ["gpt2", "llama", "opt", "mamba"]
ANY = [(name, CLASSES) for name in CLASSIFIERS] + [(name, CAUSAL) for name in LANGUAGE_MODELS]


def rows_of(model, columns):
    """The logits of each text, at its column if every token has logits."""
    texts = torch.arange(len(columns))
    read = lambda found: found[texts, columns] if found.ndim == 3 else found
    return lambda batch: read(model(**batch).logits)


def lost(model, batch, a, change):
    rows = rows_of(model, batch["attention_mask"].sum(dim=1) - 1)
    return left_out(batch, lambda x: rows(x)[torch.arange(2), a.target], change)


@pytest.mark.parametrize(("name", "task"), ANY)
def test_leave_one_out_is_the_plain_loop(name, task):
    model, batch = with_inputs(name, task)
    assert families.reads(type(model)) is None
    a = attribute(model, batch, "loo", batch_size=5)
    close(a.relevance, lost(model, batch, a, hide))
    assert (a.relevance - a.relevance.roll(1, 1)).abs().max() > 1e-3 * a.relevance.abs().max()


@pytest.mark.parametrize(("name", "task"), [("xlm-roberta", CLASSES), ("rwkv", CAUSAL)])
def test_a_token_put_in_place_is_the_plain_loop(name, task):
    model, batch = with_inputs(name, task)
    a = attribute(model, batch, "loo", removal=7)
    close(a.relevance, lost(model, batch, a, replace))


@pytest.mark.parametrize("name", ["deberta", "mixtral"])  # norms and routers that spell x / y out
def test_gradient_x_input_is_the_plain_gradient_where_activations_divide(name):
    model, batch = with_inputs(name)
    a, seen = attribute(model, batch, "gradient-x-input", 1), []
    words = lambda _module, _args, out: seen.append(out.detach().requires_grad_()) or seen[0]
    with model.get_input_embeddings().register_forward_hook(words):
        logits = model(**batch).logits
    (gradient,) = torch.autograd.grad(logits[:, 1].sum(), seen)
    close(a.relevance, (seen[0] * gradient).sum(dim=2).detach() * batch["attention_mask"])


REFUSED = {  # architecture, task, method, options, parts of the message
    "deletion": ("opt", CLASSES, "loo", {"removal": "deletion"}, "OPTFor", 'removal="attention'),
    "padding": ("opt", CLASSES, "loo", {"removal": 0}, "removal=0", "id of padding"),
    "the end": ("bart", CLASSES, "loo", {"removal": 7}, "removal=7", "end of text"),
    "mask dropped": ("fnet", CLASSES, "loo", {}, "changes no logit of this FNet", "removal="),
    "two readers": ("bart", CLASSES, "integrated-gradients", {}, "encoder and in a decoder"),
    "no lookup": ("canine", CLASSES, "integrated-gradients", {}, "inputs_embeds", '"loo"'),
    "ids needed too": ("longformer", CLASSES, "integrated-gradients", {}, "it ends in", '"loo"'),
    "other logits": ("esm", CLASSES, "integrated-gradients", {}, "its logits become others"),
    "attention of two": ("bart", CLASSES, "attention-rollout", {}, "an encoder and", '"attnlrp"'),
    "no attention": ("fnet", CLASSES, "attention-rollout", {}, "FNet", "gives none"),
    "shorter layers": ("funnel", CLASSES, "attention-rollout", {}, "(2, 4, 4, 8)", "with sum 1"),
    "several rows": ("eurobert", CLASSES, "attention-rollout", {}, "last state of one token"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_model_cannot_do_is_refused(case):
    name, task, method, options, *parts = REFUSED[case]
    contains(refused(ValueError, *with_inputs(name, task), method, **options), *parts)


def test_a_dropped_mask_is_refused_where_logits_cancel():
    model, batch = with_inputs("fnet")
    one = cases.first(batch)
    with torch.no_grad():
        first, second, _ = model(**one).logits[0].tolist()
    target = logit(0) - logit(1) * (first / second)
    contains(refused(ValueError, model, one, "loo", target=target), "changes no logit")


def test_copies_stay_within_a_budget():
    model, batch = with_inputs("xlm-roberta")
    size = torch.tensor([8])
    budget = 3 * int(bytes_of_a_copy(model, size, keys=size, kept=size))
    seen = []
    with watch(model.get_input_embeddings(), lambda out: seen.append(len(out))):
        attribute(model, batch, "loo", memory=budget)
    assert seen == [2, 3, 3, 3, 3, 2]


WITH_LAYER_NORMS = [
    ("xlm-roberta", CLASSES), ("mpnet", CLASSES), ("deberta-v2", CLASSES),
    ("gpt_neox", CLASSES), ("gpt2", CAUSAL), ("opt", CAUSAL),
]  # fmt: skip


@pytest.mark.parametrize(("name", "task"), WITH_LAYER_NORMS)
def test_integrated_gradients_are_complete(name, task):
    model, batch = with_inputs(name, task)
    a = attribute(model, batch, "integrated-gradients", steps=300)
    assert (a.details["completeness_gap"].abs() < 1e-3 * a.logit.abs()).all()
    for row, tokens in enumerate(batch["attention_mask"].sum(dim=1)):
        one = {key: x[[row], :tokens] for key, x in batch.items()}
        words = torch.zeros_like(model.get_input_embeddings()(one["input_ids"]))
        start = {"inputs_embeds": words, "attention_mask": one["attention_mask"]}
        for found, given in ((a.logit, one), (a.details["baseline_logit"], start)):
            logits = model(**given).logits[0].detach()
            close(found[row], (logits if logits.ndim == 1 else logits[-1])[a.target[row]])


ROWS = {("xlm-roberta", CLASSES): (0, 0), ("ctrl", CLASSES): (7, 5), ("opt", CAUSAL): (7, 5)}


@pytest.mark.parametrize(("name", "task"), ROWS)
def test_rollout_is_the_product_at_the_row_that_is_read(name, task):
    model, batch = with_inputs(name, task)
    a = attribute(model, batch, "attention-rollout")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        first, second = (x.mean(dim=1) for x in model(**batch, output_attentions=True).attentions)
    want = (second @ first)[torch.arange(2), torch.tensor(ROWS[name, task])]
    close(a.relevance, want * batch["attention_mask"], tolerance=1e-9)
