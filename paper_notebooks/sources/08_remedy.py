# %% [markdown]
# # 8. A remedy: relevance at the masks that Leave-One-Out switches off
#
# The paper ends with a diagnosis. LRP attributes to embeddings; Leave-One-Out (LOO) switches off a
# token as a *key of attention*, in every layer and head. *Mask relevance* attributes to these
# masks. With weights $A_{ij}$, values $v_j$, a head's output $o_i = \sum_j A_{ij} v_j$ and the
# gradient $G_i$ of the logit at $o_i$,
#
# $$R_j = \sum_{\text{layers, heads}} \sum_{i \ne j} \frac{A_{ij}}{1 - A_{ij}}
# \langle G_i, v_j - o_i \rangle.$$
#
# In one layer that is read linearly this *is* LOO, for every token (theorem 54). Across layers it
# is the first order of it (theorem 55), for the price of a backward pass. Two things make it
# better: the gradient at *half masks* (`midpoint`), because the path from a whole mask to none
# bends mostly by the deviation of the norms; and LOO itself for the few tokens that need it
# (`budgeted-loo`).

# %%
from pathlib import Path

from benchmarks.experiments import drawing, tables, trade_off
from benchmarks.research.other_shapes import compare
from benchmarks.sources import data
from numeric import attribute
from paper_notebooks import output, settings

run = settings.load()
REDUCED = run.reduced

# %% [markdown]
# ## One sentence
#
# A sentence of our own, with its tokens' relevance by each method. Pointing at a token shows its
# number.

# %%
judge = settings.classifier(run, "sst2")
sentence = data.load("embedded").texts[2]
inputs = judge.tokenizer([sentence], return_tensors="pt")
tokens = judge.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
SHOWN = {
    "Leave-One-Out": ("loo", {}),
    "AttnLRP": ("attnlrp", {}),
    "CP-LRP": ("cp-lrp", {}),
    "Mask relevance": ("mask-relevance", {"midpoint": 0}),
    "Mask relevance, midpoint 1": ("mask-relevance", {"midpoint": 1}),
    "Budgeted LOO, 4": ("budgeted-loo", {"budget": 4}),
}
maps = {
    label: attribute(judge.model, inputs, method, **options).relevance[0].tolist()
    for label, (method, options) in SHOWN.items()
}
output.sentences(tokens, maps)

# %% [markdown]
# ## Agreement against passes
#
# Mean Pearson's r with LOO, against the passes through the model that a text takes: over all
# sentences of SST-2's development set, and over the first 24 test reviews of IMDB, which are ten
# times as long and have a model of their own. On the reviews, methods of few passes alone are
# compared.

# %%
measured = {
    "SST-2": settings.trade_off(run, "sst2", trade_off.EXPERIMENT.rows, at_most=None),
    "IMDB": settings.trade_off(run, "imdb", compare.ROWS, at_most=24),
}
found = {dataset: trade_off.trade_off(each) for dataset, each in measured.items()}
for result in found.values():
    output.about(result)
    output.picture(drawing.draw(result))

# %%
for result in found.values():
    output.say(tables.markdown(result), *result.notes)

# %% [markdown]
# ## Models of other shapes
#
# Small classifiers with the shapes of RoBERTa and LLaMA, trained from random weights with two seeds
# each (`python -m benchmarks.research.other_shapes.train`), so that a result that holds for one
# model alone is seen. The table has the passes of its first model.

# %%
judges = {
    Path(name).name: settings.trade_off(run, "sst2", compare.ROWS, model=name, at_most=None)
    for name in run.judges
}
for each in judges.values():
    result = trade_off.trade_off(each)
    output.about(result)
    output.picture(drawing.draw(result))
output.say(f"Models of other shapes: {len(judges)}.")
if judges:
    output.say("\n".join(compare.agreement(judges)))

# %% [markdown]
# ## Headline

# %%
FEW = ("Mask relevance", "Mask relevance, midpoint 1", "Budgeted LOO, 4")
for dataset, result in found.items():
    rows = {row["method"]: row for row in result.rows}
    best = max(("AttnLRP", "CP-LRP"), key=lambda label, rows=rows: rows[label]["r all"])
    line = lambda label, rows=rows: (
        f"{label}: {rows[label]['r all']:.2f} over all tokens and {rows[label]['r content']:.2f} "
        f"over content tokens, in {rows[label]['passes']:.0f} passes"
    )
    output.say(f"**Mean r with LOO on {dataset}.** " + "; ".join(map(line, (best, *FEW))) + ".")
    assert {"AttnLRP", "CP-LRP", *FEW} <= {*rows}
    if not REDUCED:
        for tokens in ("all", "content"):
            lower, middle, upper = (rows[label] for label in (best, *FEW[1:]))
            assert middle[f"r {tokens} low"] > lower[f"r {tokens} high"], "closer to LOO than LRP"
            assert upper[f"r {tokens} low"] > middle[f"r {tokens} high"], "closer with four tokens"
