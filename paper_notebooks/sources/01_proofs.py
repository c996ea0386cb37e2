# %% [markdown]
# # 1. What is proved about the rules (§2.3, §3.1, Figure 1)
#
# The paper's first claim is analytical: AttnLRP's rule for products of two activations violates
# *implementation invariance*. Two networks that compute the same function get different
# explanations, because the rule depends on the order of the product's evaluation. §3.1 shows it
# on y = x₁x₂x₃ at (2, 3, 4).
#
# Here the claim is computed with exact rational arithmetic, and then extended: every statement
# about a rule is decided, either by an identity over generic symbols or by an exact
# counterexample.

# %%
import sympy as sp
from matplotlib.figure import Figure

from axioms.composites import ATTNLRP
from axioms.decide.identity import identical
from axioms.evidence import prove
from axioms.graph import leaf
from axioms.pages import scoreboard as markdown
from axioms.pages import show
from axioms.rewrites.canonizers import canonize
from axioms.rules.effects import leave_one_out
from axioms.rules.propagate import evaluate, explain
from axioms.scoreboard import scoreboard
from paper_notebooks import output, settings

REDUCED = settings.load().reduced

# %% [markdown]
# ## Figure 1: two factorizations of one function
#
# Model A is (x₁x₂)x₃ and Model B is x₁(x₂x₃). Each product passes half of its relevance to each
# factor (Eqs. 3 and 4 as ε → 0). Leave-One-Out sets one input to zero and looks at the function
# alone (§2.1). *Canonized* means: before relevance is propagated, chains of products are merged
# into one product of three factors, in either model.

# %%
x1, x2, x3 = map(leaf, ("x1", "x2", "x3"))
models = {"A: (x₁x₂)x₃": (x1 * x2) * x3, "B: x₁(x₂x₃)": x1 * (x2 * x3)}
point = {"x1": 2, "x2": 3, "x3": 4}
symbols = {name: sp.Symbol(name, real=True, nonzero=True) for name in point}


def loo(model):
    y = evaluate(model, symbols)[model][0]
    return list(leave_one_out(y, {symbols[name]: at for name, at in point.items()}).values())


maps = {f"AttnLRP, {name}": list(explain(m, point, ATTNLRP).values()) for name, m in models.items()}
maps |= {
    f"AttnLRP, canonized {name[0]}": list(explain(canonize(m), point, ATTNLRP).values())
    for name, m in models.items()
}
maps |= {f"LOO, {name[0]}": loo(m) for name, m in models.items()}
output.table(["explanation at (2, 3, 4)", *point], [[name, *r] for name, r in maps.items()])

# %%
with output.style():
    figure = Figure(figsize=(6.5, 2.6), layout="constrained")
    axes = figure.subplots()
    greys = ("0.15", "0.55", "0.9")
    for n, name in enumerate(point):
        places = [k + (n - 1) * 0.27 for k in range(len(maps))]
        heights = [float(r[n]) for r in maps.values()]
        axes.bar(places, heights, 0.25, color=greys[n], ec="0.15", label=name)
    axes.set_xticks(range(len(maps)), [name.replace(", ", "\n", 1) for name in maps], fontsize=7)
    axes.set_ylabel("relevance (units of y = 24)")
    axes.legend(frameon=False, ncols=3, loc="upper left")
output.picture(figure)

# %% [markdown]
# ## A difference for all inputs, not only at one point
#
# The example is no coincidence of the numbers. For generic symbols the two explanations differ as
# rational functions, and after canonization they are one.

# %%
generic = [list(explain(m, symbols, ATTNLRP).values()) for m in models.values()]
merged = [list(explain(canonize(m), symbols, ATTNLRP).values()) for m in models.values()]
same = {
    "as written": all(map(identical, *generic)),
    "canonized": all(map(identical, *merged)),
}
output.table(["A and B, over generic x₁, x₂, x₃", "x₁", "x₂", "x₃", "same explanation"], [
    ["A, as written", *generic[0], same["as written"]],
    ["B, as written", *generic[1], same["as written"]],
    ["A and B, canonized", *merged[0], same["canonized"]],
])  # fmt: skip

# %% [markdown]
# ## Every statement, decided now
#
# *Proved* means an identity of rational functions over generic symbols, *refuted* an exact
# counterexample, printed as the witness. The test that decides each statement runs while this
# notebook is executed.

# %%
verdicts = prove.prove(*[prove.THEOREMS / "test_associativity.py"] if REDUCED else [])
counts = {}
for one in verdicts:
    counts[one.verdict] = counts.get(one.verdict, 0) + 1
output.record(
    f"Of {len(verdicts)} statements: "
    + ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
    + ".",
    statements=len(verdicts),
)

# %%
plain = lambda text: text.replace("|", "\\|")
output.table(
    ["no.", "statement", "verdict", "witness, or scope of the proof"],
    [[v.label, plain(v.statement), v.verdict, plain(v.witness or v.scope)] for v in verdicts],
)

# %% [markdown]
# ## One theorem in full
#
# The page that `lrp-axioms prove --show 1` prints: the paper's Figure 1.

# %%
output.say(f"```text\n{show.text(show.page('1'))}```")

# %% [markdown]
# ## Rewrites that explanations survive
#
# §3.1 suspects that standard attention may violate implementation invariance "for certain
# mathematical operations". The scoreboard names them. Each row rewrites a network without
# changing its function; each column is an attribution method. ✓ proved, ✗ refuted by a witness,
# (✓) holds on the templates tried, – not applicable; of two marks the first is for ε → 0, the
# second for finite ε.

# %%
few = ("commute products", "re-associate products", "factorize attention")
rewrites = few if REDUCED else tuple(scoreboard.REWRITES)
cells = scoreboard.scoreboard(rewrites=rewrites)
output.record(markdown.as_markdown(cells), cells=len(cells))

# %%
marks = {}
for cell in cells:
    marks.setdefault(cell.rule_set, []).append(cell.verdict)
output.say(
    *[
        f"- {name}: {verdicts_.count(scoreboard.PROVED)} proved, "
        f"{verdicts_.count(scoreboard.REFUTED)} refuted, "
        f"{verdicts_.count(scoreboard.NOT_APPLICABLE)} not applicable, "
        f"{verdicts_.count(scoreboard.OPEN)} open."
        for name, verdicts_ in marks.items()
    ]
)

# %% [markdown]
# ## Headline
#
# Generated from the values above, and asserted.

# %%
slashed = lambda r: "/".join(map(str, r))
(a, b), (c, d), (e, f) = (list(maps.values())[n : n + 2] for n in (0, 2, 4))
output.say(
    f"**AttnLRP explains (x₁x₂)x₃ by {slashed(a)} and x₁(x₂x₃) by {slashed(b)}, although "
    f"Leave-One-Out is {slashed(e)} for both. Canonized, both get {slashed(c)}. "
    f"All {len(verdicts)} statements are decided, and so are all {len(cells)} cells of the "
    "scoreboard.**"
)
assert (a, b) == ([6, 6, 12], [12, 6, 6]), "Figure 1 of the paper"
assert e == f == [24, 24, 24], "Leave-One-Out in §3.1"
assert same == {"as written": False, "canonized": True}
assert c == d
assert prove.NOT_ESTABLISHED not in {one.verdict for one in verdicts}, "a statement is undecided"
assert scoreboard.OPEN not in {cell.verdict for cell in cells}, "a cell is undecided"
