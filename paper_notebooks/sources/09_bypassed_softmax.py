# %% [markdown]
# # 9. What bypassing the softmax does within a row of attention
#
# §3.2 of the paper gives two reasons for the errors of LRP at the softmax, and argues that they are
# largest where attention is flat. For one row with weights $A_i$, values $v_i$ and output
# $O = \sum_i A_i v_i$, theorem 59 answers exactly. CP-LRP gives key $i$ its value's part,
# $A_i v_i$, and misses $-A_i O_{\setminus i}$ of Leave-One-Out. AttnLRP gives it half of that, and
# half of Eq. 5:
#
# $$R_i = \tfrac12 A_i v_i + \tfrac12 z_i (1 - A_i)\, \mathrm{LOO}_i.$$
#
# At equal logits $c$ it follows that r with Leave-One-Out within the row is exactly 1 for CP-LRP,
# for any values that differ, and the sign of $1 + c$ for AttnLRP. So flat attention should be where
# the bypass does no harm. Is it so in a trained model? Each value is taken along the gradient of
# the logit at the head's output, as in the sixth notebook.

# %%
from itertools import pairwise

import numpy as np
import torch

from benchmarks.experiments import text
from benchmarks.experiments.maps import means
from benchmarks.experiments.record import interval, number
from numeric.evaluation.correlation import pearson
from numeric.evaluation.softmax_errors import row_messages
from paper_notebooks import figures, output, settings

RULES = {"CP-LRP": lambda m: m.value, "AttnLRP": lambda m: (m.value + m.taylor) / 2}


def rows_of(m):
    """Returns flatness, mean logit, and r by rule of each row of a layer: (head, query).

    r is NaN where nothing differs within the row: in the last layer, in all rows but the one that
    is read.
    """
    weights, keys = m.weights[0], m.keep[0].sum(dim=-1).numpy()
    flat = lambda x: x[0].flatten(0, 1).numpy()
    return {
        "flatness": torch.special.entr(weights).sum(dim=-1).numpy() / np.log(keys),
        "logit": m.logits[0].sum(dim=-1).numpy() / keys,
    } | {
        name: pearson(flat(rule(m)), flat(m.removal), flat(m.keep)).reshape(keys.shape)
        for name, rule in RULES.items()
    }


run = settings.load()
REDUCED = run.reduced
found, texts = settings.classifier(run, "sst2"), settings.texts(run, "sst2")
rows = []  # of every text: (layer, head, query)
for n in range(len(texts.texts)):
    inputs, _ = text.in_batch(found, texts, [n])
    layers = [rows_of(m) for m in row_messages(found.model, inputs)]
    rows.append({key: np.stack([layer[key] for layer in layers]) for key in layers[0]})
output.record(
    f"Measured: every attention row of {len(rows)} texts of `sst2`, in {rows[0]['logit'].shape[0]} "
    f"layers of {rows[0]['logit'].shape[1]} heads, for the predicted class.",
    sst2=len(rows),
)

# %% [markdown]
# ## By flatness, and by the logits of flat rows
#
# Flatness is the entropy of a row over the entropy of equal weights. r is a mean over the rows of a
# text, then over texts; *below 0* is the share of rows whose order is turned around.


# %%
def within(key, low, high, least=0):
    """Averages rows with low < key <= high, an r, and at least so flat, over texts."""
    values = []
    for x in rows:
        counts = ~np.isnan([x[rule] for rule in RULES]).any(axis=0)
        chosen = counts & (low < x[key]) & (x[key] <= high) & (x["flatness"] >= least)
        value = {"share": chosen.sum() / counts.sum()}
        for rule in RULES:
            r = x[rule][chosen]
            value[rule] = r.mean() if r.size else np.nan
            value[f"{rule} below 0"] = (r < 0).mean() if r.size else np.nan
        values.append(value)
    return means({name: np.array([x[name] for x in values]) for name in values[0]})


FLATNESS = (0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1)
LOGIT = (-np.inf, -1.5, -0.5, np.inf)
FLAT = 0.95  # flatter rows are told apart by their logits
heads = [f"r of {rule}" for rule in RULES] + [f"{rule} below 0" for rule in RULES]
lines = []
for key, edges, least in (("flatness", FLATNESS, 0), ("logit", LOGIT, FLAT)):
    lines += [f"| {key} | share of rows | {' | '.join(heads)} |", f"|---|--:|{'--:|' * len(heads)}"]
    for low, high in pairwise(edges):
        row = within(key, low, high, least)
        cells = [f"{low} to {high}", number("share", 4)(row), *(interval(r)(row) for r in RULES)]
        cells += [interval(f"{rule} below 0", 2)(row) for rule in RULES]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
output.say("\n".join(lines))

# %% [markdown]
# ## Head by head

# %%
counts = [np.where(np.isnan(x["CP-LRP"]), np.nan, 1) for x in rows]  # queries whose r is defined
by_head = {
    key: np.mean([np.nanmean(x[key] * n, -1) for x, n in zip(rows, counts, strict=True)], 0)
    for key in rows[0]
}
output.picture(figures.heads(by_head, [*RULES]))

# %% [markdown]
# ## Headline

# %%
flat, sharp = (within("flatness", low, high) for low, high in ((FLAT, 1), (0, 0.4)))
turned = within("logit", -np.inf, -1.5, FLAT)
output.say(
    f"**Within a row, r of CP-LRP with Leave-One-Out is {flat['CP-LRP']:.2f} where attention is "
    f"flat and {sharp['CP-LRP']:.2f} where it is sharp. AttnLRP, of which §3.2 argues that flat is "
    f"worse, is at {flat['AttnLRP']:.2f} and {sharp['AttnLRP']:.2f}, and at "
    f"{turned['AttnLRP']:.2f} in flat rows whose mean logit is below -1.5, which are "
    f"{turned['share']:.2%} of all.**"
)
for r in by_head.values():
    assert r.shape == rows[0]["logit"].shape[:2], "one mean for each head"
if not REDUCED:
    assert flat["CP-LRP low"] > sharp["CP-LRP high"], "the bypass is best where attention is flat"
    assert turned["AttnLRP high"] < 0, "flat rows of low logits are turned around by AttnLRP"
