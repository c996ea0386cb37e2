# %% [markdown]
# # 6. Beyond the paper: special tokens, open choices, and the errors of §3.2 by layer
#
# Three questions that the paper's tables leave open. How much of CP-LRP's advantage is carried by
# [CLS] and [SEP], two tokens without content? How much depends on choices that the text does not
# fix? And are the two errors of the softmax rule that §3.2 describes largest where bypassing it
# gains most?

# %%

from benchmarks.experiments import drawing, tables
from benchmarks.experiments.special_tokens import TOKENS
from paper_notebooks import figures, output, settings

run = settings.load()
REDUCED = run.reduced
DATASETS = ("sst2", "imdb")

# %% [markdown]
# ## Special tokens
#
# The maps of Table 2, correlated with Leave-One-Out (LOO) without [CLS], [SEP] or both. *gap* is r
# of CP-LRP minus r of AttnLRP. Below: the share of each special token in the sum of absolute
# relevance.

# %%
special = {dataset: settings.measure(run, "special", dataset) for dataset in DATASETS}
for result in special.values():
    output.about(result)
    output.say(tables.markdown(result), *result.notes)

# %%
gaps = {
    dataset: {row["tokens"]: row for row in result.rows if row["tokens"] in TOKENS}
    for dataset, result in special.items()
}
output.picture(figures.special(gaps))

# %% [markdown]
# ## Choices that the text leaves open
#
# How a token is removed for LOO (masked, replaced by [MASK], deleted), which quantity is explained
# (a logit, or the difference of two), and details of the rules: the bias in the denominator, the
# LayerNorm, ε, and whether relevance is read at the word embedding or at the sum of all. One
# choice changes at a time; cells are r over all / content tokens. The rule at the softmax, which
# changes most, is notebook 5's; docs/PAPER.md crosses all choices.

# %%
sensitivity = settings.measure(run, "sensitivity", "sst2")
output.about(sensitivity)
output.say(tables.markdown(sensitivity))

# %%
output.picture(figures.choices(sensitivity))

# %%
output.say(*[f"- {note}" for note in sensitivity.notes])

# %% [markdown]
# ## The two errors of §3.2, by layer
#
# *Structural bias* (1) is the part of CP-LRP's message that removing a key cannot change.
# *Linearization error* (2) compares Eq. 5 with the exact effect of removing a key from its row.
# *Flatness* is the entropy of attention, 1 for uniform. §3.2 argues that flat attention goes with
# large error.

# %%
softmax = {dataset: settings.measure(run, "softmax", dataset) for dataset in DATASETS}
for result in softmax.values():
    output.about(result)
    output.picture(drawing.draw(result))

# %%
for result in softmax.values():
    output.say(tables.markdown(result))

# %% [markdown]
# ## Do the errors explain the gain?
#
# A point per layer: the quantity against the gain in r of bypassing this layer alone. Twelve
# layers are few, so the intervals of r in the findings are wide.

# %%
QUANTITIES = {
    "flatness": "flatness of attention",
    "structural_bias": "structural bias",
    "linearization_error": "linearization error",
}
for dataset, result in softmax.items():
    output.say(f"**{dataset}**")
    points = {name: [row[key] for row in result.rows] for key, name in QUANTITIES.items()}
    output.picture(figures.against(points, [row["gain all"] for row in result.rows]))
    output.say(*[f"- {note}" for note in result.notes])

# %% [markdown]
# ## Headline
#
# The choices are counted by the signs of mean differences; where both r are near 0.01, as with
# ε = 1e-6 and biases left out, the sign means nothing. `lrp-axioms reproduce sensitivity` counts
# them by intervals.

# %%
ahead = [
    (row["choice"], row["attention mask all"], other["attention mask all"])
    for row in sensitivity.rows
    for other in sensitivity.rows
    if row["method"] == "CP-LRP"
    and other["method"] == "AttnLRP"
    and row["choice"] == other["choice"]
]
wins = sum(cp > attn for _, cp, attn in ahead)
output.say(
    "**"
    + "; ".join(
        f"on {dataset}, r of CP-LRP minus r of AttnLRP is {by['all']['gap']:+.3f} over all tokens "
        f"and {by['without both']['gap']:+.3f} without [CLS] and [SEP]"
        for dataset, by in gaps.items()
    )
    + f". Over all tokens of SST-2, CP-LRP is ahead under {wins} of {len(ahead)} choices.**"
)
for by in gaps.values():
    assert list(by) == list(TOKENS), "every choice of tokens"
    assert all(row["gap low"] <= row["gap"] <= row["gap high"] for row in by.values())
for result in softmax.values():
    assert [row["layer"] for row in result.rows] == list(range(1, len(result.rows) + 1))
    assert all(0 <= row["flatness"] <= 1 for row in result.rows), "entropy over log n"
assert len(ahead) == 8, "seven choices and Table 2's own, for both methods"
if not REDUCED:
    sst = gaps["sst2"]
    assert sst["all"]["gap low"] > 0, "over all tokens CP-LRP is closer"
    assert sst["all"]["gap"] > sst["without both"]["gap"], "the special tokens favour CP-LRP"
