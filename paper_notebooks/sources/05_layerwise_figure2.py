# %% [markdown]
# # 5. Which layers gain from bypassing the softmax? (Figure 2, Table A3, RQ3)
#
# The paper applies CP-LRP's attention step in some layers and AttnLRP in the others: from the
# front, from the back, and in one layer alone. It concludes that bypassing the softmax helps most
# in middle and late layers, where attention tends to be flatter.
#
# Here all 36 mixes are measured on the same texts as AttnLRP, so that each gain is a paired
# difference with an interval, over all tokens and over content tokens.

# %%
from benchmarks.experiments import drawing, tables
from paper_notebooks import figures, layers, output, settings

run = settings.load()
REDUCED = run.reduced

# %%
results = {dataset: settings.measure(run, "figure2", dataset) for dataset in ("sst2", "imdb")}
for result in results.values():
    output.about(result)

# %% [markdown]
# ## SST-2: Figure 2
#
# Three orders, one panel per metric. Light crosses are the paper's values (BERT-base, maps that
# sum to one), the dashed red line is AttnLRP in every layer. Blue: all layers that do not bypass
# the softmax pass relevance on as it is, R_Z = R_A, instead of by Eq. 5.

# %%
output.picture(drawing.draw(results["sst2"]))

# %% [markdown]
# ## IMDB: Figure 2
#
# Drawn as for SST-2; the curves remove neighbouring tokens in chunks of 16 (Appendix B.1.2).

# %%
output.picture(drawing.draw(results["imdb"]))

# %% [markdown]
# ## The rule with the shape of the paper's figure
#
# The named layers bypass the softmax, the others pass it by the rule in the first column; r is of
# maps that sum to one. Models differ in the height of r, so the last columns compare all 36 cells
# after each is divided by CP-LRP's: the root mean square of its gaps to the paper, and the largest.

# %%
for dataset, result in results.items():
    output.say(f"**{dataset}**")
    output.table(["rule", *layers.CELLS, "gaps", "largest"], layers.shape(result))

# %% [markdown]
# ## One layer at a time
#
# Bars: r with Leave-One-Out when this layer alone bypasses the softmax, minus r of AttnLRP, with
# 95 % intervals of the paired difference, of raw maps. Crosses: the difference in the paper's Table
# A3, of maps that sum to one, where AttnLRP has r = 0.22 on SST and 0.25 on IMDB.

# %%
found = {dataset: layers.single(result) for dataset, result in results.items()}
for dataset, gains in found.items():
    output.say(f"**{dataset}**")
    output.picture(figures.layer_gains(gains, layers.paper(dataset)))

# %%
for dataset, gains in found.items():
    output.say(
        f"{dataset}: over all tokens, gain in layers {layers.named(gains['all'], 1)}, loss in "
        f"layers {layers.named(gains['all'], -1)}; over content tokens, gain in layers "
        f"{layers.named(gains['content'], 1)}, loss in layers {layers.named(gains['content'], -1)} "
        "(the interval excludes 0)."
    )

# %% [markdown]
# ## Early against late layers
#
# The mean gain of the later half of the layers minus the mean gain of the earlier half, text by
# text: the paper's claim in one number.

# %%
late = {dataset: layers.late_minus_early(result) for dataset, result in results.items()}
output.table(
    ["later half minus earlier half", "all tokens", "content tokens", "paper (all, sum to one)"],
    [
        [
            dataset,
            output.signed(by["all"]),
            output.signed(by["content"]),
            layers.paper_late(dataset),
        ]
        for dataset, by in late.items()
    ],
)

# %% [markdown]
# ## Table A3, SST-2

# %%
output.say(tables.markdown(results["sst2"]))

# %% [markdown]
# ## Table A3, IMDB

# %%
output.say(tables.markdown(results["imdb"]))

# %% [markdown]
# ## Findings, from the numbers

# %%
for dataset, result in results.items():
    output.say(*[f"- {dataset}: {note}" for note in result.notes])

# %% [markdown]
# ## Headline
#
# It is about raw maps, and the paper's layers are of maps that sum to one. Of these, layers 9, 10
# and 11 are alike on SST-2 here (0.696, 0.697 and 0.696 in the table above), and layer 9 is the
# largest on IMDB.

# %%
halves = {"above": "the later half gains more", "below": "the earlier half gains more"}
output.say(
    "**Bypassing the softmax in one layer alone, over all tokens: "
    + "; ".join(
        f"on {dataset}, {output.verdict(by['all'], **halves)} ({output.signed(by['all'])}), most "
        f"in layer {layers.best(found[dataset]['all'])} (paper: layer {layers.paper_best(dataset)})"
        for dataset, by in late.items()
    )
    + ".**"
)
for dataset, result in results.items():
    depth = len(found[dataset]["all"])
    assert len(result.rows) == 1 + 3 * depth, "AttnLRP and every cell of Table A3"
    assert all(g.low <= g.mean <= g.high for gains in found[dataset].values() for g in gains)
    rows = layers.by_cell(result)
    assert rows["front to back", depth] == rows["back to front", 1], "all layers: CP-LRP, twice"
    assert rows["front to back", 1] == rows["single layer", 1], "layer 1 alone, twice"
if not REDUCED:
    assert late["sst2"]["all"].low > 0, "on SST-2 the later layers gain more, as the paper says"
