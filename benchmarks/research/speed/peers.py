"""One explanation by another library, or by ours, in a process of its own.

``python -m benchmarks.research.speed.peers lxt base`` prints the relevance as JSON, and then, for
each line that it reads, the CPU seconds of one more explanation.  Each library has a process,
because some libraries patch classes that all their models share.
"""

import json
import sys
import time
import warnings
from unittest import mock

import torch
from transformers import BertConfig, BertForSequenceClassification

from lrp_axioms import attribute
from lrp_axioms.benchmarks.running.timing import random_text

STEPS = 32  # of Integrated Gradients
SIZES = {"base": (768, 12, 128), "small": (48, 2, 8)}
"""Width, layers and tokens; a head has 1 / 12 of the width."""
INITIAL = {"base": 0.02, "small": 0.2}  # standard deviation of weights


def model_and_text(size: str):
    width, layers, tokens = SIZES[size]
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=12,
        initializer_range=INITIAL[size],
    )
    model = BertForSequenceClassification(config).eval().requires_grad_(requires_grad=False)
    return model, random_text(model, batch=1, tokens=tokens)


def by_us(method, **options):
    return lambda model, inputs: lambda: attribute(model, inputs, method, **options).relevance


def by_lxt(model, inputs):
    """Runs AttnLRP by lxt's explicit operators, on a BERT without padding spelled out here.

    lxt 2.1's patches of stock models (``lxt.efficient``) fail under Transformers 5.
    """
    from lxt.explicit import functional, rules

    heads = model.config.num_attention_heads

    def linear(module, x):
        return functional.linear_epsilon(x, module.weight, module.bias)

    def normed_sum(norm, x, y):
        return functional.layer_norm(functional.add2(x, y), norm.weight, norm.bias, norm.eps)

    def attention(of, x):
        q, k, v = (
            linear(module, x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for module in (of.query, of.key, of.value)
        )
        scores = rules.identity(lambda s: s * of.scaling, functional.matmul(q, k.mT))
        weights = functional.softmax(scores, -1)
        return functional.matmul(weights, v).transpose(1, 2).flatten(2)

    def layer(of, x):
        made = linear(of.attention.output.dense, attention(of.attention.self, x))
        x = normed_sum(of.attention.output.LayerNorm, x, made)
        active = rules.identity(torch.nn.functional.gelu, linear(of.intermediate.dense, x))
        return normed_sum(of.output.LayerNorm, x, linear(of.output.dense, active))

    def explain():
        embeddings, norm = whole_embedding(model, inputs)
        x = functional.layer_norm(embeddings, norm.weight, norm.bias, norm.eps)
        for each in model.bert.encoder.layer:
            x = layer(each, x)
        pooled = rules.identity(torch.tanh, linear(model.bert.pooler.dense, x[:, 0]))
        logit = linear(model.classifier, pooled).amax(dim=1)
        (relevance,) = torch.autograd.grad(logit, embeddings, logit.detach())
        return relevance.sum(dim=-1)

    return explain


def whole_embedding(model, inputs):
    """Returns word + position + type as a leaf, (batch, token, channel), and the next norm."""
    of, ids = model.bert.embeddings, inputs["input_ids"]
    x = of.word_embeddings(ids) + of.token_type_embeddings.weight[0]
    x = x + of.position_embeddings.weight[: ids.shape[1]]
    return x.detach().requires_grad_(), of.LayerNorm


def by_autolrp(model, inputs):
    """Runs autolrp's AttnLRP preset; its rules of LayerNorm and biases differ from ours."""
    import autolrp

    config = autolrp.LRPConfig(rule={**autolrp.BASE, **autolrp.ATTNLRP})

    def explain():
        words = autolrp.tensor(model.get_input_embeddings()(inputs["input_ids"]).detach())
        mask = inputs["attention_mask"]
        model(inputs_embeds=words, attention_mask=mask).logits.amax(dim=1).sum().lrp(config=config)
        return words.relevance.sum(dim=-1)

    return explain


def by_captum(model, inputs):
    """Runs Captum's Integrated Gradients from zero, Gauss-Legendre, all nodes at once (default)."""
    from captum.attr import IntegratedGradients

    mask = inputs["attention_mask"]

    def forward(words):
        spread = mask.repeat_interleave(len(words) // len(mask), dim=0)
        return model(inputs_embeds=words, attention_mask=spread).logits

    def explain():
        words = model.get_input_embeddings()(inputs["input_ids"]).detach()
        target = forward(words).argmax(dim=1)
        found = IntegratedGradients(forward).attribute(words, target=target, n_steps=STEPS)
        return found.sum(dim=-1)

    return explain


EXPLAIN = {
    "lxt": by_lxt,
    "autolrp": by_autolrp,
    "captum": by_captum,
    "AttnLRP": by_us("attnlrp"),
    "IG": by_us("integrated-gradients", steps=STEPS),
}


def compared(name: str, explain):
    """Returns the relevance that is compared with another library's.

    lxt adds 1e-6 to outputs of either sign, which is a pole at -1e-6; this answer is without it.
    """
    if name != "lxt":
        return explain()
    from lxt.explicit import functional

    with mock.patch.object(functional, "_stabilize", lambda z, *_, **_options: z):
        return explain()


def main(name: str, size: str) -> None:
    warnings.simplefilter("ignore")  # of the other libraries
    torch.set_num_threads(1)
    explain = EXPLAIN[name](*model_and_text(size))
    print(json.dumps(compared(name, explain).tolist()), flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        explain()
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
