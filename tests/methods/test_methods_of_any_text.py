"""Methods besides LRP on models that no record describes, each against a plain loop."""

import pytest
import torch

from numeric import attribute
from numeric.methods.memory_budget import bytes_of_a_copy
from numeric.models import families
from numeric.models.inputs import prepare
from numeric.targets import logit
from tests.census.build import build, inputs
from tests.census.measure import conditions
from tests.support.cases import close
from tests.support.traces import contains, refused, watch

CLASSES, CAUSAL = "sequence classification", "causal language modelling"
CLASSIFIERS = [
    "xlm-roberta", "modernbert", "deberta-v2", "mpnet", "xlnet", "opt", "gpt_neox", "phi3",
    "gemma3_text", "mixtral", "bloom", "falcon", "t5", "bart", "perceiver",
]  # fmt: skip
LANGUAGE_MODELS = ["gpt2", "llama", "opt", "mixtral", "mamba"]
ANY = [(name, CLASSES) for name in CLASSIFIERS] + [(name, CAUSAL) for name in LANGUAGE_MODELS]


@pytest.fixture(autouse=True)
def _float64():
    with conditions():
        yield


def made(name, task=CLASSES):
    model = build(name, task)
    return model, inputs(model, task)


@torch.no_grad()
def logits_of(model, batch, row, present):
    """Of one text alone, at the last token that is ``present`` if every token has logits."""
    found = model(**{key: x[[row]] for key, x in batch.items()}).logits[0]
    return found[int(present[row].nonzero().max())] if found.ndim == 2 else found


def left_out(model, batch, a, change):
    present = batch["attention_mask"] == 1
    want = torch.zeros_like(a.relevance)
    for row, token in present.nonzero().tolist():
        changed = {key: x.clone() for key, x in batch.items()}
        change(changed, (row, token))
        less = logits_of(model, changed, row, present)[a.target[row]]
        want[row, token] = a.logit[row] - less
    return want


def hide(batch, place):
    batch["attention_mask"][place] = 0


def replace(batch, place):
    batch["input_ids"][place] = 7


@pytest.mark.parametrize(("name", "task"), ANY)
def test_leave_one_out_is_the_plain_loop(name, task):
    model, batch = made(name, task)
    assert families.reads(type(model)) is None
    a = attribute(model, batch, "loo", batch_size=5)
    close(a.relevance, left_out(model, batch, a, hide))
    assert (a.relevance - a.relevance.roll(1, 1)).abs().max() > 1e-3 * a.relevance.abs().max()


@pytest.mark.parametrize(("name", "task"), [("xlm-roberta", CLASSES), ("rwkv", CAUSAL)])
def test_a_token_put_in_place_is_the_plain_loop(name, task):
    model, batch = made(name, task)
    a = attribute(model, batch, "loo", removal=7)
    close(a.relevance, left_out(model, batch, a, replace))


@pytest.mark.parametrize("name", ["deberta", "mixtral"])  # norms and routers that spell x / y out
def test_gradient_x_input_is_the_plain_gradient_where_activations_divide(name):
    model, batch = made(name)
    a, seen = attribute(model, batch, "gradient-x-input", 1), []
    words = lambda _module, _args, out: seen.append(out.detach().requires_grad_()) or seen[0]
    hook = model.get_input_embeddings().register_forward_hook(words)
    logits = model(**batch).logits
    hook.remove()
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
    "no attention": ("fnet", CLASSES, "attention-rollout", {}, "FNet", "but none"),
    "shorter layers": ("funnel", CLASSES, "attention-rollout", {}, "(2, 4, 4, 8)", "sum to 1"),
    "several rows": ("eurobert", CLASSES, "attention-rollout", {}, "last state of one token"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_model_cannot_do_is_refused(case):
    name, task, method, options, *parts = REFUSED[case]
    contains(refused(ValueError, *made(name, task), method, **options), *parts)


def test_a_dropped_mask_is_refused_where_logits_cancel():
    model, batch = made("fnet")
    one = {key: x[:1] for key, x in batch.items()}
    with torch.no_grad():
        first, second, _ = model(**one).logits[0].tolist()
    target = logit(0) - logit(1) * (first / second)
    contains(refused(ValueError, model, one, "loo", target=target), "changes no logit")


def test_copies_stay_within_a_budget():
    model, batch = made("xlm-roberta")
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
    model, batch = made(name, task)
    a = attribute(model, batch, "integrated-gradients", steps=300)
    assert (a.details["completeness_gap"].abs() < 1e-3 * a.logit.abs()).all()
    present = batch["attention_mask"] == 1
    for row in (0, 1):
        of_text = logits_of(model, batch, row, present)
        close(a.logit[row], of_text[a.target[row]])
        of_start = at_zero(model, batch, row, present)[a.target[row]]
        close(a.details["baseline_logit"][row], of_start)


def at_zero(model, batch, row, present):
    """Logits of one text whose words are all 0, without its padding."""
    tokens = int(present[row].sum())
    words = torch.zeros_like(model.get_input_embeddings()(batch["input_ids"][[row], :tokens]))
    with torch.no_grad():
        found = model(inputs_embeds=words, attention_mask=torch.ones(1, tokens).long()).logits[0]
    return found[-1] if found.ndim == 2 else found


ROWS = {("xlm-roberta", CLASSES): (0, 0), ("ctrl", CLASSES): (7, 5), ("opt", CAUSAL): (7, 5)}


@pytest.mark.parametrize(("name", "task"), ROWS)
def test_rollout_is_the_product_at_the_row_that_is_read(name, task):
    model, batch = made(name, task)
    a = attribute(model, batch, "attention-rollout")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        first, second = (x.mean(dim=1) for x in model(**batch, output_attentions=True).attentions)
    want = (second @ first)[torch.arange(2), torch.tensor(ROWS[name, task])]
    close(a.relevance, want * batch["attention_mask"], tolerance=1e-9)


def test_positions_of_any_model_that_counts_from_padding_on_are_fewer():
    model, _ = made("camembert")
    most = model.config.max_position_embeddings - model.config.pad_token_id - 1
    prepare(model, {"input_ids": torch.full((1, most), 7)})
    message = refused(ValueError, model, {"input_ids": torch.full((1, most + 1), 7)})
    contains(message, f"text of {most + 1} tokens", f"{most} positions")
