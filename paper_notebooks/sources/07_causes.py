# %% [markdown]
# # 7. Does the method find the cause?
#
# The paper compares LRP with Leave-One-Out, because nobody knows the true causes of a trained
# model's answer. Here they are known. A small LLaMA was trained on a language of six tasks, whose
# definition includes the words that cause an answer: replacing one of them by another word of its
# kind changes the answer or takes it away, and no other word of the text does. The question is
# which method gives these words the largest relevance.

# %%
from benchmarks.experiments import drawing
from benchmarks.experiments.causes import measure
from benchmarks.experiments.causes.examples import DISTANCES, examples
from benchmarks.experiments.causes.language import TASKS
from benchmarks.experiments.causes.measure import METHODS
from benchmarks.sources import models
from paper_notebooks import output, settings

REDUCED = settings.load().reduced
COUNT = 2 if REDUCED else measure.COUNT

# %% [markdown]
# ## The tasks
#
# One prompt of each. Its words are positions from 0; a *carrier* is a cause in whose place another
# word gives another answer, such as the value in recall. The model writes the answer next.

# %%
prompts = [examples(task, "middle", 1, seed=0)[0] for task in TASKS]
output.table(
    ["task", "prompt", "answer", "causes", "carriers"],
    [
        [one.task, f"`{' '.join(one.words)}`", f"`{one.answer}`", *(
            ", ".join(one.words[n] for n in sorted(places)) for places in (one.causes, one.carriers)
        )]
        for one in prompts
    ],
)  # fmt: skip

# %% [markdown]
# ## One prompt, every method

# %%
found, one = models.load(measure.MODEL), prompts[0]
maps = {name: measure.relevances(found, [one], name)[0].tolist() for name in METHODS}
output.sentences(["<s>", *one.words], maps)

# %% [markdown]
# ## All prompts
#
# A method points at the token with the largest relevance by size, among `<s>` and the words before
# the question.

# %%
result = measure.causes(count=COUNT)
total = len(result.examples["task"])
output.record(f"Measured: {result.text}", prompts=total)
output.say(*result.notes)

# %%
output.picture(drawing.draw(result))

# %%
for name, meaning in measure.MEASURES.items():
    output.say(f"**{name}**: {meaning}")
    rows = [r for r in result.rows if r["measure"] == name and r["distance"] == measure.ALL]
    cells = [
        [f"{r[m]:.2f} [{r[f'{m} low']:.2f}, {r[f'{m} high']:.2f}]" for m in METHODS] for r in rows
    ]
    output.table(
        ["task", "chance", *METHODS],
        [[r["task"], f"{r['chance']:.2f}", *line] for r, line in zip(rows, cells, strict=True)],
    )

# %% [markdown]
# ## Headline

# %%
pointing = next(r for r in result.rows if r["measure"] == "pointing" and r["task"] == r["distance"])
best = max(METHODS, key=lambda method: pointing[method])
output.say(
    f"**Over all {total} prompts {best} points at a cause most often, in {pointing[best]:.2f} of "
    f"them; Leave-One-Out in {pointing['loo']:.2f}; chance is {pointing['chance']:.2f}.**"
)
assert total == len(TASKS) * len(DISTANCES) * COUNT
if not REDUCED:
    assert all(result.examples["right"]), "the model answers every prompt right"
    assert all(result.examples["follows"]), "and follows another word in the place of a carrier"
    for method in ("attnlrp", "cp-lrp"):
        assert pointing[f"{method} low"] > pointing["loo high"], "closer to the cause than LOO"
    assert pointing["attention-rollout high"] < pointing["chance"], "rollout points elsewhere"
