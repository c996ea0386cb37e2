# %% [markdown]
# # 3. Does bypassing the softmax bring LRP closer to Leave-One-Out? SST-2 (Table 2, RQ2)
#
# AttnLRP sends relevance through the attention weights and the softmax behind them (Eqs. 3, 4
# and 5). CP-LRP treats the weights as constants: all relevance goes to the values. §3.2 argues
# that the softmax rule adds two errors, and §4.3 reports that CP-LRP agrees better with
# Leave-One-Out (LOO): r = 0.52 against 0.22 on SST.
#
# Here the same methods are measured on the dev set of SST-2, twice: over all tokens as in the
# paper, and over content tokens alone, without [CLS] and [SEP].

# %%
from paper_notebooks import comparison, output, settings, table2

DATASET = "sst2"
run = settings.load()
REDUCED = run.reduced

# %% [markdown]
# ## Measurement
#
# LOO masks one token in the attention mask and looks at the logit of the predicted class (§4.1,
# Appendix B.1.2). Every method explains the same logit of the same text.

# %%
result = settings.measure(run, "table2", DATASET)
output.about(result)

# %% [markdown]
# ## Table 2, with the paper's numbers below ours
#
# The paper divides every map by its sum before it correlates; that column is *sum to one*. The
# brackets are 95 % bootstrap intervals over texts.

# %%
table2.table(result)

# %% [markdown]
# ## Findings, from the numbers

# %%
output.say(*[f"- {note}" for note in result.notes])

# %% [markdown]
# ## CP-LRP against AttnLRP, text by text
#
# The two rules explain the same texts, so their difference is paired. Right of 0, CP-LRP is closer
# to LOO for that text. Where a line crosses one half is the median text.

# %%
found = comparison.compare(result)
table2.text_by_text(found)

# %% [markdown]
# ## The effect of "sum to one"
#
# Dividing a map by its sum turns r around whenever exactly one of the two sums is negative (theorem
# 76). For such texts the paper's r has the opposite sign of the r of the maps themselves.

# %%
table2.turned(found)

# %% [markdown]
# ## Another rule at the softmax
#
# The paper's gap between the two rules is far larger than the gap by Eq. 5. It is about as large if
# relevance passes the softmax as it is, R_Z = R_A, the rule of Chefer et al. (2021). Notebook 5
# compares the shape by layer.

# %%
output.table(["method", "r, all tokens, sum to one", "the paper"], table2.rules(result))

# %% [markdown]
# ## Perturbation curves (LeRF, MoRF)
#
# Δ = LeRF − MoRF is the paper's second metric. In Table 2, AttnLRP has the larger Δ on SST
# (0.83 against 0.79) and CP-LRP on IMDB (6.75 against 6.36).

# %%
table2.curves(found)

# %% [markdown]
# ## One sentence
#
# An embedded sentence of the project, not one of the data set, explained by the same model.

# %%
output.sentences(*settings.colour(run, DATASET, number=2))

# %% [markdown]
# ## Headline
#
# The sign over all tokens is the paper's claim. The paper did not ask which rule is closer once
# the two special tokens are left out. Both signs are asserted; with another model, where one of
# them does not hold, this cell fails.

# %%
table2.headline(result, found)
if not REDUCED:
    assert found.means["all"].low > 0, "over all tokens CP-LRP is closer, as the paper says"
    assert found.carried.low > 0, "[CLS] and [SEP] favour CP-LRP"
    assert found.means["content"].high < 0, "without them AttnLRP is closer: the sign turns"
