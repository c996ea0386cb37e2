"""Writes the page of models, docs/MODELS.md, from measurements."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.metadata import version

from tests.census.build import TASKS
from tests.census.measure import COLUMNS, Found

YES, NO, NONE = "✓", "✗", "–"
LONGEST = 200
PATH = re.compile(r"\S*/(?=site-packages/)|(?<!\w)/\S*/")

HEAD = """\
# Models

Every architecture that Transformers {transformers} has for seven tasks, built with random weights
and two small layers in float64, and what holds of its explanations.
`python -m tests.census` makes this page, and measures one architecture with
`--only gemma2`. Its last part has dual encoders, classifiers of sounds, and modules of one's own.

- **runs**: the small model could be built and run on two texts, one of them padded, or two images,
  or a text with an image.
- **explained**: `attribute(model, inputs, "attnlrp")` gives finite relevance of what is predicted:
  a class, the next token, both ends of an answer; of a tag and of a masked token at column 2.
- **conserves**: with every bias and every shift of a norm set to 0, the relevance of CP-LRP adds up
  to the logit, to {conserves:.0e} of it. The value of a function at 0, such as the 1/2 of a sigmoid
  gate, acts as a bias that cannot be set to 0.
- **audited**: AttnLRP (with ε = 0 and 1/8) and CP-LRP are what the NumPy rules give on the recorded
  operations, and the causes of the residual add up to it, to {audited:.0e}.
- **Leave-One-Out**: `attribute(model, inputs, "loo")` is what one forward pass per token gives, to
  {loo:.0e}, and per patch of an image, in whose place the mean patch stands.

A dash stands where nothing was measured, for a reason that is listed below. Beside a cross stands
how far off the worse of two examples is and, where relevance is not conserved, what keeps the rest
of it, by the audit. Embeddings of positions and token types are among these: they
are there in every model, but where they are added first they are a part of the tokens' embedding.

What the code of a model casts to float32 stays in float64 here: its rounding would hide errors.
Experts run one by one, because their grouped products have no float64.
"""


def cell(column: str, error: float | str) -> str:
    if isinstance(error, str):
        return NONE
    return YES if error <= COLUMNS[column][1] else NO


def misses(found: Found) -> list[str]:
    """The errors of the columns with a cross, and the causes that keep missing relevance."""
    off = {c: e for c, e in found.errors.items() if cell(c, e) == NO}
    by = {"conserves": found.keeps and f" by {found.keeps}"}
    return [f"{c}: off by {error:.0e}{by.get(c, '')}" for c, error in off.items()]


def refusals(found: Found) -> list[str]:
    """Why there is a dash: nothing could be explained, or other columns not be measured."""
    first = found.refusal or found.errors.get("explained", "")
    errors = [first] if first and isinstance(first, str) else found.errors.values()
    return list(dict.fromkeys(short(error) for error in errors if isinstance(error, str)))


CLASS = re.compile(r"\b(?:this )?[xA-Z]\w*?(?:For[A-Z]|LM|Head|Model)\w*")
SIZE = re.compile(r" by \d\.\de[+-]\d+")
PLACE = re.compile(r"\s+\S+ \([^()\s]+\.py:\d+\)")


def short(text: str) -> str:
    """The first line of an error, and the first detail it announces; equal for all models.

    Without the model's class, places and sizes in it, and folders of this machine.
    """
    lines = [" ".join(PLACE.sub("", x).split()) for x in text.strip().splitlines() if x.strip()]
    lines = lines or ["no message"]
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    first = CLASS.sub("the model", SIZE.sub("", PATH.sub("", first)).replace("|", "/"))
    return first if len(first) <= LONGEST else first[: LONGEST - 1] + "…"


def cells(found: Found) -> list[str]:
    return [cell(column, found.errors.get(column, "")) for column in COLUMNS]


def row(found: Found, numbers: Mapping[str, int] | None = None) -> str:
    """One architecture as a line of its task's table; reasons as their ``numbers``."""
    reasons = refusals(found)
    if numbers:
        reasons = [f"reason {numbers[reason]}" for reason in reasons]
    return line([f"`{found.architecture}`", *cells(found), "; ".join([*misses(found), *reasons])])


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(head: list[str], rows: Iterable[str]) -> list[str]:
    return [line(head), line(["---"] + [":-:"] * (len(head) - 1)), *rows, ""]


def counts(task: str, found: list[Found]) -> str:
    """How many architectures of a task have a check mark, by column."""
    marks = zip(*map(cells, found), strict=True)
    runs = sum(not x.refusal for x in found)
    return line([task, *map(str, (len(found), runs, *(x.count(YES) for x in marks)))])


def page(found: Iterable[Found]) -> str:
    """The whole page, for architectures measured in any order."""
    by_task = {task: [] for task in TASKS}
    for x in sorted(found, key=lambda x: x.architecture):
        by_task[x.task].append(x)
    limits = {"conserves": COLUMNS["conserves"][1], "audited": COLUMNS["audited"][1]}
    loo = COLUMNS["Leave-One-Out"][1]
    parts = [HEAD.format(transformers=version("transformers"), loo=loo, **limits)]
    head = ["task", "architectures", "runs", *COLUMNS]
    parts += table(head, [counts(task, x) for task, x in by_task.items()])
    counted = Counter(reason for x in by_task.values() for each in x for reason in refusals(each))
    numbers = {reason: n for n, (reason, _) in enumerate(counted.most_common(), 1)}
    parts += ["## Reasons", "", *(f"{n}. {reason}" for reason, n in numbers.items()), ""]
    for task, x in by_task.items():
        parts += [f"## {task[0].upper()}{task[1:]}", ""]
        rows = (row(each, numbers) for each in x)
        parts += table(["architecture", *COLUMNS, "what stands in the way"], rows)
    return "\n".join(parts).rstrip() + "\n"
