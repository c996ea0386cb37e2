"""Mask relevance is Leave-One-Out in one layer, has its facts, and refuses other attention."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import BertConfig, PreTrainedModel

from axioms.composites import GRADIENT_X_INPUT, UnassignedOperation
from benchmarks.research.speed.usage import peak_memory
from benchmarks.running.timing import random_text
from numeric import attribute, attribute_each
from numeric.engine import attended
from numeric.engine.attended import Attending, Fused
from numeric.engine.engine import Propagation
from numeric.methods import meetings
from numeric.targets import logit, span
from tests.census.build import CAUSAL, CLASSES, IMAGES, build, inputs, with_inputs
from tests.census.measure import conditions
from tests.support import cases
from tests.support.cases import close
from tests.support.traces import contains, refused

METHOD = "mask-relevance"
WIDTH, HEADS = 8, 2


class One(PreTrainedModel):
    """One layer of attention, and a linear map of its output for the first token."""

    config_class = BertConfig

    def __init__(self, attend, *, steep=1.0):
        torch.manual_seed(0)
        super().__init__(BertConfig(vocab_size=11, hidden_size=WIDTH, num_labels=3, pad_token_id=0))
        self.words = nn.Embedding(11, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.head = nn.Linear(WIDTH, 3)
        self.attend, self.steep = attend, steep
        self.double().eval()

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask):
        x = self.words(input_ids)
        x = x + self.attend(self, x, attention_mask == 0)
        return SimpleNamespace(logits=self.head(x[:, 0]))

    def projected(self, x):
        """(batch, head, token, channel) of queries, keys and values."""
        found = nn.functional.linear(x, self.attention.in_proj_weight).chunk(3, dim=-1)
        return [y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in found]

    def scores(self, x, hidden):
        q, k, v = self.projected(x)
        z = self.steep * (q @ k.mT)
        return z.masked_fill(hidden[:, None, None], -torch.inf), v


def module(model, x, hidden, **options):
    return model.attention(x, x, x, key_padding_mask=hidden, **options)[0]


def by_einsum(model, x, hidden):
    z, v = model.scores(x, hidden)
    return torch.einsum("bhij,bhjd->bihd", torch.softmax(z, dim=3), v).flatten(2)


def by_matmul(model, x, hidden):
    z, v = model.scores(x, hidden)
    return (z.softmax(-1) @ v).transpose(1, 2).flatten(2)


def fused(model, x, hidden):
    seen = ~hidden[:, None, None]
    o = nn.functional.scaled_dot_product_attention(*model.projected(x), attn_mask=seen)
    return o.transpose(1, 2).flatten(2)


def texts():
    batch = cases.tiny_batch()
    return {key: batch[key] for key in ("input_ids", "attention_mask")}


ATTENTION = {
    "a module with weights": module,
    "a module without": lambda *given: module(*given, need_weights=False),
    "einsum": by_einsum,
    "matmul": by_matmul,
    "fused": fused,
}


@pytest.mark.parametrize("attend", ATTENTION.values(), ids=ATTENTION)
def test_in_one_layer_that_is_read_linearly_it_is_leave_one_out(attend):
    model, batch = One(attend), texts()
    want = attribute(model, batch, "loo").relevance
    found = attribute(model, batch, METHOD).relevance
    close(found[:, 1:], want[:, 1:])  # the row that is read is the first token's own
    assert not found[:, 0].any()


def test_a_key_that_has_nearly_all_the_weight_needs_no_limit():
    model, batch = One(by_matmul, steep=80), texts()
    z, _ = model.scores(model.words(batch["input_ids"]), batch["attention_mask"] == 0)
    rest = 1 - z.softmax(dim=-1)[:, :, 0, 1:].amax(dim=-1)
    assert 0 < rest.min() < 1e-12  # a difference from 1 has few digits left
    want = attribute(model, batch, "loo").relevance
    close(attribute(model, batch, METHOD).relevance[:, 1:], want[:, 1:])


def test_what_bypassing_the_softmax_leaves_out_is_that_of_theorem_56():
    """A_j (A_j v_j - o) / (1 - A_j) of the row that is read, by its formula."""
    model, batch = One(by_matmul), texts()
    found = attribute(model, batch, METHOD, bypassed=True)
    with torch.no_grad():
        z, v = model.scores(model.words(batch["input_ids"]), batch["attention_mask"] == 0)
        a = z.softmax(dim=-1)[:, :, 0, :, None]  # of the first row
        left_out = a * (a * v - (a * v).sum(dim=2, keepdim=True)) / (1 - a)
        want = left_out.transpose(1, 2).flatten(2) @ model.head.weight[found.target][:, :, None]
    close(found.details["bypassed"][:, 1:], want[:, 1:, 0])  # the row is the first token's own


def test_a_row_that_attends_to_one_key_alone_counts_0():
    model, batch = One(fused), texts()
    batch["attention_mask"][1] = torch.tensor([0, 1, 0, 0, 0, 0])
    found = attribute(model, batch, METHOD).relevance
    assert not found[1].any()
    assert found[0, 1:].all()


def test_it_does_not_see_a_shift_of_the_values():
    """Theorem 18: the map behind them takes the shift away again."""
    model, batch = cases.family("bert")
    before = attribute(model, batch, METHOD).relevance
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            layer.attention.self.value.bias += 3
            dense = layer.attention.output.dense
            dense.bias -= 3 * dense.weight.sum(dim=1)
    close(attribute(model, batch, METHOD).relevance, before)


@pytest.mark.parametrize("name", [x for x in cases.ALL if x != "vit"])
def test_neither_batch_nor_padding_nor_the_kernel_matters(name):
    model, batch = cases.family(name)
    whole = attribute(model, batch, METHOD)
    found = whole.relevance
    assert not found[batch["attention_mask"] == 0].any()
    eager, _ = cases.family(name, attn_implementation="eager")
    want = attribute(eager, batch, METHOD).relevance
    close(found, want, tolerance=cases.tolerance(name))
    for row in (0, 1):
        kept = batch["attention_mask"][row] == 1
        one = {"input_ids": batch["input_ids"][row, kept][None]}
        alone = attribute(model, one, METHOD, whole.target[[row]]).relevance[0]
        close(alone, found[row, kept], tolerance=1e-9)


def test_rows_that_are_computed_a_few_at_a_time_give_the_same(monkeypatch):
    for name in ("bert", "llama"):
        model, batch = cases.family(name)
        want = attribute(model, batch, METHOD, heads=True)
        monkeypatch.setattr(attended, "ON_CPU", 1)
        found = attribute(model, batch, METHOD, heads=True)
        close(found.details["heads"], want.details["heads"])
        monkeypatch.undo()


def test_rows_that_are_computed_a_few_at_a_time_bound_the_memory(monkeypatch):
    model, _ = cases.family("llama")
    run = partial(attribute, model, random_text(model, batch=1, tokens=512), METHOD)
    whole = model.config.num_attention_heads * 512**2 * model.dtype.itemsize  # of one layer
    few = peak_memory(run)
    monkeypatch.setattr(attended, "ON_CPU", 1 << 12)
    assert peak_memory(run) < few - whole


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
def test_fused_attention_stays_fused(name):
    model, batch = cases.family(name)
    rules = Propagation(model, GRADIENT_X_INPUT)
    seen = Attending(rules).all
    with rules:
        model(**batch)
    assert [type(x) for x in seen] == [Fused, Fused]


def test_it_is_linear_in_the_target():
    with conditions():
        model, batch = with_inputs("llama", CAUSAL)
        targets = [logit(7), logit(9, at=3), logit(7) - 2 * logit(9, at=3)]
        first, second, both = attribute_each(model, batch, METHOD, targets=targets)
        close(both.relevance, first.relevance - 2 * second.relevance)
        assert not second.relevance[:, 4:].any()  # which column 3 does not see
        assert attribute(model, batch, METHOD, span(1, 4)).relevance.any()


REFUSED = {  # architecture, task, parts of the message
    "two texts": ("bart", CLASSES, "encoder and a decoder", '"loo"'),
    "another lookup": ("canine", CLASSES, "CanineForSequenceClassification looks no words up"),
    "an image": ("vit", IMAGES, "ViTForImageClassification reads no text"),
    "no attention": ("fnet", CLASSES, "FNetForSequenceClassification has no attention by a sof"),
    "shorter layers": ("funnel", CLASSES, "8 tokens of a text reach", "(2, 4, 4, 8)"),
    "windows": ("longformer", CLASSES, "no attention by a softmax", "(2, 12, 4, 8)"),
    "a mean": ("eurobert", CLASSES, "8 tokens of a text reach the logit of EuroBert"),
    "convolutions of heads": ("convbert", CLASSES, "8 tokens", "(32, 9, 1)"),
    "convolutions of values": ("nystromformer", CLASSES, "8 tokens of a text"),
    "convolutions of states": ("lfm2_moe", CAUSAL, "3 tokens of a text"),
    "linear attention": ("minimax", CAUSAL, "8 tokens of a text"),
    "more keys than tokens": ("deepseek_v4", CAUSAL, "attends to 11 keys that have values"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_tokens_that_meet_in_another_way_are_refused(case):
    name, task, *parts = REFUSED[case]
    with conditions():
        model = build(name, task)
        with pytest.raises(ValueError, match=r"pass another method|explain a model") as caught:
            attribute(model, inputs(model, task), METHOD)
    contains(str(caught.value), *parts)


def test_a_target_that_shows_no_other_token_lets_no_later_call_through(monkeypatch):
    monkeypatch.setattr(meetings, "KNOWN", {})
    with conditions():
        model = build("lfm2_moe", CAUSAL)
        batch = inputs(model, CAUSAL)
        attribute(model, batch, METHOD, logit(7, at=0))  # no token is before it
        assert not meetings.KNOWN
        for target in (None, span(1, 4), logit(7) + logit(8) + logit(9), logit(7, at=1)):
            message = refused(ValueError, model, batch, METHOD, target=target)
            contains(message, "tokens of a text reach", "pass another method")
        llama = build("llama", CAUSAL)
        attribute(llama, inputs(llama, CAUSAL), METHOD, span(1, 4))
        assert meetings.KNOWN


def test_attention_without_gradients_is_refused():
    with conditions():
        model = build("hrm_text", CAUSAL)
        message = refused(UnassignedOperation, model, inputs(model, CAUSAL), METHOD)
    contains(message, "scaled_dot_product_attention where gradients are switched off", "L_module")


def by_products(model, x, hidden):
    """A softmax whose weights multiply the values one by one."""
    z, v = model.scores(x, hidden)
    o = (z.softmax(-1)[..., None] * v[:, :, None]).sum(dim=3)
    return o.transpose(1, 2).flatten(2)


def by_sigmoids(model, x, hidden):
    z, v = model.scores(x, hidden)
    return (z.sigmoid() @ v).transpose(1, 2).flatten(2)


def with_more(model, x, hidden):
    """Attention, and a mean over all tokens beside it."""
    return fused(model, x, hidden) + x.mean(dim=1, keepdim=True)


UNSEEN = {
    "products": (by_products, "has no attention by a softmax"),
    "sigmoids": (by_sigmoids, "has no attention by a softmax"),
    "a mean beside it": (with_more, "6 tokens of a text reach the logit of One "),
}


@pytest.mark.parametrize("case", UNSEEN)
def test_attention_that_is_not_seen_is_refused(case):
    attend, part = UNSEEN[case]
    contains(refused(ValueError, One(attend), texts(), METHOD), part, "pass another method")
