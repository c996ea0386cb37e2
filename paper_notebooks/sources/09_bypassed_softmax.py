# %% [markdown]
# # 9. What bypassing the softmax does within a row of attention
#
# §3.2 of the paper gives two reasons for the errors of LRP at the softmax, and argues that they are
# largest where attention is flat. For one row with weights $A_i$, values $v_i$ and output
# $O = \sum_i A_i v_i$, theorem 59 says what happens exactly. CP-LRP gives key $i$ its value's part,
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
import numpy as np

from benchmarks.experiments import softmax_by_head
from paper_notebooks import figures, output, settings

run = settings.load()
REDUCED = run.reduced
found, texts = settings.classifier(run, "sst2"), settings.texts(run, "sst2")
rows = list(softmax_by_head.measured(found, texts))
output.record(
    f"Measured: every attention row of {len(rows)} texts of `sst2`, in {rows[0]['logit'].shape[0]} "
    f"layers of {rows[0]['logit'].shape[1]} heads, for the predicted class.",
    sst2=len(rows),
)

# %% [markdown]
# ## By flatness, and by the logits of flat rows
#
# Flatness is the entropy of a row over that of equal weights. r is a mean over the rows of a text,
# then over texts; *below 0* is the share of rows whose order is turned around.

# %%
output.say("\n".join(softmax_by_head.tables(rows)))

# %% [markdown]
# ## Head by head

# %%
heads = softmax_by_head.by_head(rows)
output.picture(figures.heads(heads, [*softmax_by_head.RULES]))

# %% [markdown]
# ## Headline

# %%
flat, sharp = (
    softmax_by_head.within(rows, "flatness", low, high) for low, high in ((0.95, 1), (0, 0.4))
)
turned = softmax_by_head.within(rows, "logit", -np.inf, -1.5, softmax_by_head.FLAT)
output.say(
    f"**Within a row, r of CP-LRP with Leave-One-Out is {flat['CP-LRP']:.2f} where attention is "
    f"flat and {sharp['CP-LRP']:.2f} where it is sharp; §3.2 argues that flat is worse. AttnLRP is "
    f"at {flat['AttnLRP']:.2f} and {sharp['AttnLRP']:.2f}, and at {turned['AttnLRP']:.2f} in flat "
    f"rows whose mean logit is below -1.5, which are {turned['share']:.2%} of all.**"
)
for r in heads.values():
    assert r.shape == rows[0]["logit"].shape[:2], "one mean for each head"
if not REDUCED:
    assert flat["CP-LRP low"] > sharp["CP-LRP high"], "the bypass is best where attention is flat"
    assert turned["AttnLRP high"] < 0, "flat rows of low logits are turned around by AttnLRP"
