"""Who finds the cause: every method's relevance of the words of a text, against its known causes.

A method is asked why the model writes the answer.  Its relevance of <s> and of all words of the
text, before the question, is ranked by size: the question is a cause of every answer, and finding
it is no achievement.
"""

import random
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import product

import numpy as np
import torch

from lrp_axioms import attribute
from lrp_axioms.benchmarks.experiments.causes.examples import DISTANCES, Example, examples
from lrp_axioms.benchmarks.experiments.causes.language import (
    SPECIAL,
    TASKS,
    VOCABULARY,
    replacements,
)
from lrp_axioms.benchmarks.experiments.causes.shares import random_rank, share
from lrp_axioms.benchmarks.experiments.maps import too_few
from lrp_axioms.benchmarks.experiments.record import Experiment, above_interval, number
from lrp_axioms.benchmarks.experiments.result import Result, joined
from lrp_axioms.benchmarks.running.workers import Each, Track, collected, in_turn, untracked
from lrp_axioms.benchmarks.sources import models
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean
from lrp_axioms.numeric.methods import catalogue
from lrp_axioms.numeric.targets import logit

# Shapley values take thousands of passes for a prompt.
METHODS = {name: x for name, x in catalogue.METHODS.items() if name != "shapley"}
MODEL = "embedded-lm"
COUNT = 50  # prompts per task and distance
SEED = 2 * 10**6  # of the prompts; training and its accuracy have other seeds
TOGETHER = 25  # prompts per batch
MEASURES = {
    "pointing": "share of prompts in which the largest relevance by size is a cause's",
    "signed": "the same without the size: the largest relevance, and not the most negative",
    "carrier": "the same as pointing, at a word that carries the answer",
    "mass": "share of the causes in the sum of relevance by size",
    "rank": "mean reciprocal rank of the first cause, by size",
}
SHARES = ("pointing", "signed", "carrier")  # of prompts: the others are means
ALL = "all"
MORE = ("mass", "rank")  # that a terminal shows of all tasks together
# Okabe and Ito's palette for the colour-blind, and a marker for each colour.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9", "#777777"]
COLOURS += ["#882255", "#999933"]
STYLES = [*zip(COLOURS, "os^vxDP*<>", strict=True)]


def language_model(classifier: models.Classifier, table: str = "causes") -> str:
    """Names the model to explain: the embedded language model for the embedded classifier.

    Raises ValueError for any other model that does not read and write words of the language.
    """
    if classifier.name == "embedded":
        return MODEL
    tokenizer, text = classifier.tokenizer, ("the", ";")
    known = {*tokenizer.get_vocab()} if classifier.explains == "next token" else set()
    words = [word for word in VOCABULARY if word not in (*SPECIAL, *known)]
    if words or tokenizer.convert_ids_to_tokens(tokenizer(" ".join(text)).input_ids)[1:] != [*text]:
        raise ValueError(
            f"table {table!r} asks a language model that begins with <s> and has every word of its "
            f"language as a token, and {classifier.name!r} is none; leave --model out, or pass a "
            "folder of `python -m benchmarks.research.train_causes FOLDER`"
        )
    return classifier.name


def causes(
    *, model: str = MODEL, count: int = COUNT, each: Each = in_turn, track: Track = untracked
) -> Result:
    """All methods on ``count`` prompts of every task and distance, shared out to ``each``.

    ``model``: a name that ``language_model`` returns.
    """
    cells = [(task, distance) for task in TASKS for distance in DISTANCES]
    measure = partial(cell, count, model)
    found = collected(measure, cells, each=each, track=track, description="causes")
    columns = joined(found.values())
    rows = list(table(columns))
    return Result(
        name="causes",
        table="causes",
        title="Causes: does the method find what a language model answered from?",
        text=(
            f"{len(cells) * count} prompts of a language with known causes, {count} for each of "
            f"{len(TASKS)} tasks and {len(DISTANCES)} distances, answered by "
            f"{'the embedded language model' if model == MODEL else model}. "
            "Relevance of the logit of the answer, over <s> and the words before the "
            f"question. {'; '.join(f'{name}: {text}' for name, text in MEASURES.items())}. "
            "Distances are words from the farthest word that carries the answer to the end: "
            f"{', '.join(f'{name} {a} to {b}' for name, (a, b) in DISTANCES.items())}. Intervals "
            "(95 %) are Wilson's of shares, and bootstrap intervals of means."
        ),
        settings=_model(model).about() | {"prompts": count, "seed": SEED},
        rows=rows,
        examples=columns,
        notes=(*notes(columns, rows), *too_few(count, "prompts of a distance")),
    )


_model = cache(lambda name: models.load(name))


def cell(count: int, model: str, which: tuple[str, str]) -> dict[str, list]:
    """Computes columns of one task and distance, one line per prompt, the shortest first."""
    task, distance = which
    loaded = _model(model)
    prompts = sorted(examples(task, distance, count, seed=SEED), key=lambda x: len(x.words))
    columns: dict[str, list] = {
        "task": [task] * count,
        "distance": [distance] * count,
        "prompt": [" ".join(prompt.words) for prompt in prompts],
        "answer": [prompt.answer for prompt in prompts],
        "causes": [sorted(prompt.causes) for prompt in prompts],
        "carriers": [sorted(prompt.carriers) for prompt in prompts],
        "words": [prompt.question for prompt in prompts],
        "chance": [len(x.causes) / (1 + x.question) for x in prompts],
        "carrier chance": [len(x.carriers) / (1 + x.question) for x in prompts],
        "rank chance": [random_rank(len(x.causes), 1 + x.question) for x in prompts],
        **confirmation(loaded, prompts),
    }
    for method in METHODS:
        parts = (prompts[n : n + TOGETHER] for n in range(0, count, TOGETHER))
        maps = [relevance for part in parts for relevance in relevances(loaded, part, method)]
        scores = [score(r, prompt) for r, prompt in zip(maps, prompts, strict=True)]
        columns[f"{method} relevance"] = [r.tolist() for r in maps]
        columns |= {f"{method} {key}": [x[key] for x in scores] for key in scores[0]}
    return columns


def relevances(
    found: models.Classifier, prompts: Sequence[Example], method: str, others: Sequence[str] = ()
) -> list[np.ndarray]:
    """Relevance of <s> and of every word of each prompt for its answer, in logits (token,).

    ``others``: for the answer rather than for these words, the difference of both logits.
    """
    inputs = _encode(found, [prompt.words for prompt in prompts])
    ids = lambda words: tuple(found.tokenizer.convert_tokens_to_ids(list(words)))
    target = logit(ids(prompt.answer for prompt in prompts))
    target = target - logit(ids(others)) if others else target
    relevance = attribute(found.model, inputs, method, target).relevance.double().numpy()
    return [r[: 1 + len(prompt.words)] for r, prompt in zip(relevance, prompts, strict=True)]


def score(relevance: np.ndarray, prompt: Example) -> dict[str, float]:
    """Computes all ``MEASURES`` of one map, which begins with <s>; ties count against it.

    Adds the share of the question in the sum of relevance by size over the whole prompt.
    """
    text = relevance[: 1 + prompt.question]
    word = np.arange(len(text)) - 1  # <s> is before the first
    causes, carriers = (np.isin(word, list(x)) for x in (prompt.causes, prompt.carriers))
    size = np.abs(text)
    rank = 1 + int((size[~causes] >= size[causes].max()).sum())
    return {
        "pointing": float(rank == 1),
        "signed": float((text[causes].max() > text[~causes]).all()),
        "carrier": float((size[carriers].max() > size[~carriers]).all()),
        "mass": float(size[causes].sum() / size.sum()) if size.any() else 0.0,
        "rank": 1 / rank,
        "question": float(1 - size.sum() / np.abs(relevance).sum()) if relevance.any() else 0.0,
    }


def confirmation(found: models.Classifier, prompts: Sequence[Example]) -> dict[str, list]:
    """Whether the model answers right, and whether its answer hangs on the carrier.

    "follows": another word of its kind in the place of a carrier gives the answer that the language
    then has; "lost": with a carrier masked, the right answer is no longer the most probable one.
    """
    rng = random.Random(SEED)
    chosen = [rng.choice(sorted(prompt.carriers)) for prompt in prompts]
    others = []
    for prompt, place in zip(prompts, chosen, strict=True):
        possible = replacements(prompt.task, prompt.words, place)
        others.append(rng.choice([one for one in possible if one[1] not in ("", prompt.answer)]))
    words = [prompt.words for prompt in prompts]
    answers = [prompt.answer for prompt in prompts]
    same = lambda one, other: [a == b for a, b in zip(one, other, strict=True)]
    return {
        "right": same(predicted(found, words), answers),
        "follows": same(predicted(found, [w for w, _ in others]), [of for _, of in others]),
        "lost": [not x for x in same(predicted(found, words, without=chosen), answers)],
    }


def predicted(found: models.Classifier, words, *, without: Sequence[int] = ()) -> list[str]:
    """Predicts the next word of each prompt; ``without``: masks a word of each."""
    inputs = _encode(found, words)
    last = inputs["attention_mask"].sum(dim=1) - 1
    for row, place in enumerate(without):
        inputs["attention_mask"][row, 1 + place] = 0
    with torch.inference_mode():
        logits = found.model(**inputs).logits[torch.arange(len(last)), last]
    return found.tokenizer.convert_ids_to_tokens(logits.argmax(dim=1).tolist())


def _encode(found, words):
    texts = [" ".join(of_prompt) for of_prompt in words]
    return found.tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)


def table(columns: dict[str, list]) -> Iterator[dict]:
    """Yields a row per measure, task and distance: means, intervals, and a random map's mean."""
    tasks, distances = (np.array(columns[key]) for key in ("task", "distance"))
    groups = [(*dict.fromkeys(columns[key]), ALL) for key in ("task", "distance")]
    for measure, task, distance in product(MEASURES, *groups):
        kept = (tasks == task) | (task == ALL)
        kept &= (distances == distance) | (distance == ALL)
        row = {"measure": measure, "task": task, "distance": distance}
        row["prompts"] = int(kept.sum())
        chance = columns.get(f"{measure} chance", columns["chance"])
        row["chance"] = float(np.array(chance)[kept].mean())
        for method in METHODS:
            values = np.array(columns[f"{method} {measure}"])[kept]
            interval = share if measure in SHARES else partial(bootstrap_mean, seed=0)
            row[method], row[f"{method} low"], row[f"{method} high"] = interval(values)[:3]
        yield row


def notes(columns: dict[str, list], rows: Sequence[dict]) -> Iterator[str]:
    """Ranks the methods, and says how well the model answers and its causes are confirmed."""
    everywhere = {row["measure"]: row for row in rows if row["task"] == row["distance"] == ALL}
    pointing = everywhere["pointing"]
    order = sorted(METHODS, key=lambda method: -pointing[method])
    found = ", ".join(f"{method} {pointing[method]:.2f}" for method in order)
    yield f"Pointing, over all: {found} (chance {pointing['chance']:.2f})."
    said = {
        "right": "The model answers {} right",
        "follows": "another word in the place of a carrier gives its own answer in {}",
        "lost": "the answer is lost with a carrier masked in {}",
    }
    answers = "; ".join(text.format(_of(columns[key])) for key, text in said.items())
    yield f"{answers}; Leave-One-Out is largest at a cause in {_of(columns['loo pointing'])}."


def _of(values):
    _, low, high = share(values)
    return f"{int(sum(values))} of {len(values)} prompts ({100 * low:.1f} to {100 * high:.1f} %)"


def _cause(row):
    """The task, its distance unless all are meant, and the measure unless it is pointing."""
    task = row["task"] + f", {row['distance']}" * (row["distance"] != "all")
    return task if row["measure"] == "pointing" else f"{row['measure']}: {task}"


def figure(result):
    """The pointing game of every method against the distance of the cause, by task; with chance."""
    from lrp_axioms.benchmarks.experiments import drawing

    figure = drawing.empty(8, 5)
    methods = [each for each in METHODS.values() if each.name in result.rows[0]]
    rows = [row for row in result.rows if row["measure"] == "pointing" and row["distance"] != "all"]
    tasks = dict.fromkeys(row["task"] for row in rows if row["task"] != "all")
    for axes, task in zip(figure.subplots(2, 3, sharex=True, sharey=True).flat, tasks, strict=True):
        of_task = [row for row in rows if row["task"] == task]
        x = np.arange(len(of_task))
        for n, method in enumerate(methods):
            colour, marker = STYLES[n]
            y, errors = drawing.interval(of_task, method.name)
            style = {"color": colour, "marker": marker, "ms": 4, "lw": 1, "label": method.label}
            axes.errorbar(x + 0.07 * (n - (len(methods) - 1) / 2), y, yerr=errors, **style)
        axes.plot(x, [row["chance"] for row in of_task], ":", color="0.5", label="chance")
        axes.set_xticks(x, [row["distance"] for row in of_task])
        axes.set_title(task, fontsize=9)
        axes.set_ylim(-0.03, 1.03)
    figure.supxlabel("distance of the cause", fontsize=9)
    figure.supylabel("largest relevance at a cause (share, 95 %)", fontsize=9)
    return drawing.with_legend(figure)


_narrow = lambda label: "\n".join(label.replace("gradient ×", "grad. x").rsplit(" ", 1))

EXPERIMENT = Experiment(
    name="causes",
    prepare=lambda request: {"model": language_model(request.classifier)},
    run=lambda request, model: causes(
        model=model, count=request.prompts or COUNT, each=request.each, track=request.track
    ),
    columns=[
        ("pointing\nby task", _cause),
        ("chance", number("chance", 2)),
        *((_narrow(each.label), above_interval(each.name, one="1")) for each in METHODS.values()),
    ],
    shortest=lambda row: (
        row["distance"] == "all"
        and (row["measure"] == "pointing" or (row["task"] == "all" and row["measure"] in MORE))
    ),
    figure=figure,
)
