"""``python -m benchmarks.research.long_contexts [TOKENS TEXTS MODEL]``: cheap Leave-One-Out.

Without arguments, prints r and the share of good error estimates on prompts of ``embedded-lm``.
With arguments, prints r of all tokens and of the tokens before the question on long texts, and how
many times fewer products than whole copies each method takes.  MODEL is
"embedded-english" or a folder.
"""

import random
import sys

import numpy as np
import torch

from lrp_axioms import attribute
from lrp_axioms.benchmarks.experiments.causes.measure import DISTANCES, TASKS, examples
from lrp_axioms.benchmarks.research import english
from lrp_axioms.benchmarks.sources import models
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.targets import logit

TOKEN, PAIR = 24 * 896 * (2 * 1024 + 3 * 4864), 24 * 2 * 896  # products of a row, of row and key
PASSES, RUN, DRAWN = [], heads.run, 100  # tokens of plain Leave-One-Out beside a method's
SINGLE = [("budgeted-loo", {"budget": n}) for n in (4, 8, 32)]


def prompts(found):
    """Yields (method, r), and ("errors", whether one is within its estimate), on every prompt."""
    for one in [x for t in TASKS for d in DISTANCES for x in examples(t, d, 20, seed=7 * 10**6)]:
        ids = {"input_ids": found.tokenizer(" ".join(one.words), return_tensors="pt").input_ids}
        target = logit(found.tokenizer.convert_tokens_to_ids(one.answer))
        plain = attribute(found.model, ids, "loo", target).relevance
        for method, options in [("atman", {}), *SINGLE]:
            a = attribute(found.model, ids, method, target, **options)
            yield (method, *options.values()), [np.corrcoef(a.relevance[0], plain[0])[0, 1]]
            error = a.details.get("error", 0 * plain)
            for x in ((a.relevance - plain).abs() <= error)[error > 0].tolist():
                yield ("errors", *options.values()), [x]


def text(rng, tokens):
    """Draws stories and a question about one, and three levels of numbers, (1, token)."""
    fact, asked = english.place(rng)
    shares, parts = {kind.__name__: 1.0 for kind in english.KINDS}, [["<s>"], fact, asked[0][0]]
    while (left := tokens - sum(map(len, parts))) > 0:
        parts.insert(rng.randrange(1, len(parts)), english.text(rng, shares)[0][:-1][:left])
    words = [word for own in parts for word in own]
    stories = torch.tensor([[n for n, own in enumerate(parts) for _ in own]])
    sentences = torch.tensor([[word == "." for word in ["", *words[:-1]]]]).cumsum(1)
    return words, [(stories + 7) // 8, stories, sentences]


def noted(model, inputs, rows, *, of):
    (copies, own), past = inputs["input_ids"].shape, inputs.get("past_key_values")
    PASSES.append(copies * own * (TOKEN + PAIR * (own + (past.get_seq_length() if past else 0))))
    return RUN(model, inputs, rows, of=of)


def long(loaded, tokens, texts):
    """Yields (method, (r of all tokens, r before the question, times fewer products))."""
    for words, levels in [text(random.Random(f"{tokens} {n}"), tokens) for n in range(texts)]:
        ids = {"input_ids": torch.tensor([loaded.tokenizer.convert_tokens_to_ids(words)])}
        known, found, before = levels[0] < 0, {}, levels[1] < levels[1].max()
        for method, options in [("loo", {}), ("loo", {"groups": levels}), *SINGLE]:
            PASSES.clear()
            a = attribute(loaded.model, ids, method, **{"budget": tokens // 32} | options)
            back = TOKEN + 2.92 * tokens * PAIR  # of mask relevance, by torch's FlopCounterMode
            cost = sum(PASSES) + tokens * back * (method != "loo")
            fewer = tokens**2 * (TOKEN + tokens * PAIR) / cost
            found[method, str(options)[:12]] = a.relevance, fewer
            known = known | (a.details["by_token"] == 1)
        others = torch.from_numpy(np.random.default_rng(0).permutation((~known[0]).nonzero()[:, 0]))
        chosen = known.index_fill(1, others[:DRAWN], value=True)
        alone = {"groups": chosen * torch.arange(1, tokens + 1), "budget": int(chosen.sum()) + 1}
        plain = attribute(loaded.model, ids, "loo", logit(int(a.target[0])), **alone).relevance
        weight = torch.where(known, 1, len(others) / DRAWN)
        for name, (own, fewer) in found.items():
            c = [np.cov(own[x], plain[x], aweights=weight[x]) for x in (chosen, chosen & before)]
            yield name, (*(x[0, 1] / np.sqrt(x[0, 0] * x[1, 1]) for x in c), fewer)


def main(tokens=0, texts=0, model="embedded-lm"):
    rows, heads.run, found = {}, noted, models.load(model)
    for name, values in long(found, int(tokens), int(texts)) if tokens else prompts(found):
        rows.setdefault(name, []).append(values)
    for name, values in rows.items():
        print(name, *(np.round(bootstrap_mean(x, seed=0)[:3], 3) for x in np.array(values).T))


if __name__ == "__main__":
    main(*sys.argv[1:])
