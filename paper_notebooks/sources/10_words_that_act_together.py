# %% [markdown]
# # 10. Words that act together
#
# Leave-One-Out (LOO), LRP and mask relevance give one number per word. The paper cites a proof
# (You et al., 2025) that no such map is faithful to polynomials of correlated inputs, and that
# groups of inputs are needed. Here the *interaction* of two words,
#
# $$I_{ij} = f(x) - f(x \setminus i) - f(x \setminus j) + f(x \setminus \{i, j\})
# = \mathrm{LOO}_i + \mathrm{LOO}_j - \text{the loss of both},$$
#
# is measured: in one text of our own, and on SST-2 with estimates beside it. Theorem 79 gives the
# pairs of one layer of attention, and theorem 81 names the texts that pairs determine.

# %%
import numpy as np

from benchmarks.research import pairs
from numeric import interactions
from paper_notebooks import figures, output, settings

run = settings.load()
REDUCED = run.reduced
judge = settings.classifier(run, "sst2")

# %% [markdown]
# ## One text
#
# The losses of single words add up to more than the whole text has to lose. The table has the loss
# without each group of words that act together, such as `not` and `bad`.

# %%
found = interactions(judge.model, judge.tokenizer, "not a bad film", by="word")
output.png(found.png())

# %%
output.table(
    ["group, left out as a whole", "loss in logits"],
    [[found.name_of(parts), f"{loss:+z.2f}"] for parts, loss in found.groups()],
)
output.say(found.said_explained())

# %% [markdown]
# ## Estimates beside exact pairs, on SST-2
#
# A text of $n$ tokens has $n(n - 1)/2$ pairs. Mask relevance $R$ estimates them all from a forward
# and a backward pass per token: $R_j(x) - R_j(x \setminus i)$, made symmetric. Then the pairs with
# the largest estimates are left out. The first 50 sentences of the development set are measured, if
# they have 8 to 30 tokens. The last two lines are oracles, which know the exact pairs: they say how
# much a better choice of the pairs could gain, with unchanged estimates for all others.

# %%
MODELS = {"SST-2's model": judge} | {
    f"model {n} of another shape": settings.judge(name) for n, name in enumerate(run.judges, 1)
}
texts = settings.texts(run, "sst2", at_most=50)
measured = {name: pairs.compare(each, texts.texts) for name, each in MODELS.items()}
for name, each in measured.items():
    kind = type(MODELS[name].model).__name__
    output.record(f"**{name}**: {kind}, {len(each.r)} texts.", sst2=len(texts.texts))
    output.table(["pairs left out", "r with exact pairs", "of the 10 largest"], [*each.rows()])

# %% [markdown]
# ## When may a map of single words be trusted?
#
# Random quarters of a text's tokens are left out, and their losses are predicted: by the sum of LOO
# of single tokens, by the groups in the quarter, and by pairs. A curve gives the share of texts
# with at least so much of their variance explained.

# %%
for name, each in measured.items():
    output.say(f"**{name}**, {len(each.r)} texts")
    output.picture(figures.shares(each.explained, ("tokens", "groups", "pairs")))

# %% [markdown]
# ## Headline

# %%
for name, each in measured.items():
    tokens, groups, by_pairs = np.median(each.explained, axis=0)
    row = [*each.rows()][2]
    output.say(
        f"**{name}: with estimates, and n pairs left out, r with all exact pairs is {row[1]}, "
        f"and {row[2]} of the 10 largest are found. For the median text, single tokens explain "
        f"{tokens:.2f} of the variance, groups {groups:.2f}, pairs {by_pairs:.2f}.** The sum of "
        f"|I| is {each.sizes.mean():.1f} times the sum of |LOO|."
    )
    assert each.r.shape == each.top.shape == (len(each.r), len(pairs.WAYS))
    if not REDUCED:
        assert tokens < groups < by_pairs, "pairs explain most, and single tokens least"
