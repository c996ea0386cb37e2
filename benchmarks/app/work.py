"""Explains a text by several methods, as events for a page and as files."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_axioms.benchmarks.app.asked import Asked
from lrp_axioms.benchmarks.commands.advice import of_page
from lrp_axioms.benchmarks.commands.audit import data_of, text_inputs
from lrp_axioms.benchmarks.commands.console import check_names
from lrp_axioms.benchmarks.commands.cutting import cut_prompt, cutting
from lrp_axioms.benchmarks.commands.explained import (
    Explained,
    explain_text,
    explained_shares,
    unknown,
)
from lrp_axioms.benchmarks.commands.generated import prompts
from lrp_axioms.benchmarks.sources.models import EMBEDDED, HEADS, Classifier
from lrp_axioms.benchmarks.sources.pins import PINS
from lrp_axioms.numeric.evaluation.correlation import pearson
from lrp_axioms.numeric.methods.catalogue import METHODS, WITH_LEMMAS
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.results.render import LEAST, legend
from lrp_axioms.numeric.results.result import ROLLOUT, page
from lrp_axioms.numeric.spelling import some
from lrp_axioms.numeric.warning import telling

LOO = "loo"
COPIES = 4  # tokens that are left out between two signs of progress
FILES = {"html": "text/html", "png": "image/png", "json": "application/json"}
MOST_WRITTEN = 64  # tokens
WIDE = (torch.float32, torch.float64)  # an audit takes no other weights
EXAMPLES = {
    "embedded": "not a bad film",
    "embedded-english": (
        "Anna put the key in the box. Ben put the cup in the garden. The key is in the"
    ),
    "embedded-lm": "anna apple bert pen ; anna",
}
Tell = Callable[[dict[str, Any]], None]
Maps = dict[str, list[float]]  # by method, relevance of every token or word


def explained(loaded: Classifier, asked: Asked, method: str, **options: Any) -> Explained:
    """Explains the text by one method, by tokens or words."""
    how = {"method": method, "target": partial(asked.goal, loaded), "options": options}
    found = explain_text(loaded, asked.given(loaded), **how, truncate=asked.truncate)
    if asked.unit == "token":
        return found
    a = found.attribution.by(asked.unit, loaded.tokenizer)
    _, words, relevance = zip(*a.lines(0), strict=True)
    section = replace(found.section, tokens=words, relevance=relevance, unit=asked.unit)
    return replace(found, attribution=a, section=section)


def answer(loaded: Classifier, asked: Asked, tell: Tell) -> None:
    """Explains by every method, Leave-One-Out last, and tells every result as it comes.

    Events: "note" for warnings, "said" once, "row" for each method, "passes" while tokens are left
    out, "agreement" with Leave-One-Out, and "explained" for maps of tokens.  An error that
    ``tell`` raises ends the work.
    """
    maps: Maps = {}
    for said in _unknown(loaded, asked.texts(loaded)):
        tell({"note": said})
    for method in sorted(asked.methods, key=lambda name: name == LOO):
        each = partial(_passed, tell, maps if asked.unit == "token" else {}, {})
        options = {"batch_size": COPIES, "each": each} if method == LOO else {}
        with telling(lambda said: tell({"note": of_page(said)})):
            found = explained(loaded, asked, method, **options)
        if not maps:
            tell({"said": _head(loaded, asked, found)})
        maps[method] = list(found.section.relevance)
        tell({"row": _row(loaded, method, found)})
    if LOO in maps:
        tell({"agreement": agreement(maps, maps[LOO])})
    if asked.unit == "token":
        inputs, _, goal = _read(loaded, asked)
        tell({"explained": explained_shares(loaded, inputs, goal, maps)})


def _unknown(loaded: Classifier, texts: Iterable[str]) -> list[str]:
    """Returns one note on the words that the tokenizer does not know, or none."""
    words = [repr(x) for text in texts for x in unknown(loaded.tokenizer, text)]
    names = [*dict.fromkeys(words)]
    return [f"unknown, and read as {loaded.tokenizer.unk_token}: {some(names)}"] if names else []


def _read(loaded: Classifier, asked: Asked) -> tuple[Any, dict[str, Any], Any]:
    """Returns the inputs of the text, their tokens and notes, and the target."""
    with telling(lambda _said: None):  # an explanation has told its notes
        inputs, given = text_inputs(loaded, asked.texts(loaded), truncate=asked.truncate)
        return inputs, given, asked.goal(loaded, given["tokens"])


def _passed(tell: Tell, maps: Maps, known: dict[int, float], *told: Tensor) -> None:
    """Tells how many tokens were left out, and, for maps of tokens, their losses so far."""
    _, part, lost = told
    columns = part.int().argmax(dim=1).tolist()
    known |= dict(zip(columns, lost[:, 0].tolist(), strict=True))
    so_far = [known.get(n) for n in range(part.shape[1])]
    passes = {"done": len(known), "of": part.shape[1], "relevance": so_far}
    tell({"passes": passes | {"agreement": agreement(maps, so_far)}})


def agreement(maps: Maps, loo: list[float | None]) -> dict[str, float | None]:
    """Returns each other map's r with Leave-One-Out over the tokens that were left out."""
    keep = np.array([[x is not None for x in loo]])
    other = np.array([[x or 0.0 for x in loo]])
    found = {k: pearson(np.array([x]), other, keep)[0] for k, x in maps.items() if k != LOO}
    return {name: None if math.isnan(r) else float(r) for name, r in found.items()}


def _head(loaded: Classifier, asked: Asked, found: Explained) -> dict[str, Any]:
    a = found.attribution
    return {
        "label": found.said,
        "kind": loaded.explains,
        "number": a.number,
        "logit": a.logit[0].item(),
        "probabilities": probabilities(loaded, asked, a.target[0].reshape(-1).tolist()),
    }


def _row(loaded: Classifier, name: str, found: Explained) -> dict[str, Any]:
    return {
        "name": name,
        "label": METHODS[name].label,
        "tokens": list(found.section.tokens),
        "relevance": list(found.section.relevance),
        "residual": found.attribution.residual[0].item(),
        "caption": found.section.caption,
        "shares": name == ROLLOUT,
        "audited": name in WITH_LEMMAS and loaded.model.dtype in WIDE,
    }


@torch.no_grad()
def probabilities(loaded: Classifier, asked: Asked, labels: list[int]) -> list[float]:
    """Returns the probability of each explained label; of an answer, of both its ends.

    A model with one output, or with numbers as outputs, gives none.  A model of several labels at
    once gives a probability for each.
    """
    config, several = loaded.model.config, "multi_label_classification"
    one = config.num_labels == 1 or config.problem_type == "regression"
    if loaded.explains in ("class", "tag") and one:
        return []
    inputs, *_ = _read(loaded, asked)
    out = loaded.model(**inputs)
    if loaded.explains == "answer":
        rows = [out.start_logits[0], out.end_logits[0]]
    else:
        logits, column = out.logits[0], _column(loaded, asked, inputs)
        rows = [logits if logits.ndim == 1 else logits[column]] * len(labels)
    of_one = Tensor.sigmoid if config.problem_type == several else partial(torch.softmax, dim=-1)
    own = zip(rows, labels, strict=True)
    return [of_one(row.double())[label].item() for row, label in own]


def _column(loaded: Classifier, asked: Asked, inputs: Mapping[str, Tensor]) -> int:
    if asked.column is not None or loaded.explains != "masked token":
        return int(asked.column or -1)
    token = loaded.tokenizer.mask_token_id
    token = loaded.model.config.mask_token_id if token is None else token
    return int((inputs["input_ids"][0] == token).int().argmax())


def file(loaded: Classifier, asked: Asked, kind: str) -> bytes:
    """Writes the explanation by the first method as a page, a picture, or data."""
    check_names("file", [kind], FILES)
    found = explained(loaded, asked, asked.methods[0])
    if kind == "png":
        return found.png()
    if kind == "html":
        return page([found.section], found.attribution).encode()
    return json.dumps(found.facts()).encode()


def audited(loaded: Classifier, asked: Asked) -> dict[str, Any]:
    """Audits the explanation by the first method, and returns the audit as data."""
    from lrp_axioms.numeric.auditing.audit import audit

    method = asked.methods[0]
    check_names("method", [method], WITH_LEMMAS)
    inputs, given, goal = _read(loaded, asked)
    try:
        found = audit(loaded.model, inputs, method, goal)
    except (LookupError, ZeroDivisionError) as error:  # a rule, or a limit, that does not exist
        raise ValueError(str(error)) from error
    return data_of(found, loaded, inputs, given, goal)


def written(loaded: Classifier, asked: Asked, count: str) -> str:
    """Explains the answer, or up to ``count`` tokens that a language model writes, on a page."""
    from lrp_axioms import explain_generation

    if loaded.explains != "next token":
        raise ValueError(f"{loaded.name} writes no text; serve a language model")
    if asked.answer is None and count not in map(str, range(1, MOST_WRITTEN + 1)):
        raise ValueError(f"write {count!r}: write 1 to {MOST_WRITTEN} tokens")
    number = None if asked.answer else int(count)
    prompt_of = prompts(loaded, chat=asked.chat)
    how = {"asked": prompt_of, "count": number, "answers": [asked.answer]}
    options = {"answer": asked.answer} if asked.answer else {"max_new_tokens": number}
    notes = _unknown(loaded, [asked.text, asked.answer or ""])
    if asked.target is not None or asked.contrast is not None:
        notes.append("the chosen token and the contrast are not used: every token is explained")
    with telling(lambda said: notes.append(of_page(said))):
        text = cut_prompt(loaded, asked.text, **how, truncate=asked.truncate)
        options |= {"method": asked.methods[0]}
        found = explain_generation(loaded.model, loaded.tokenizer, prompt_of(text), **options)
    said = [f"{note[:1].upper()}{note[1:]}." for note in notes]
    return replace(found, model=loaded.name).html(asked.unit, said)


def python(loaded: Classifier, asked: Asked) -> str:
    """Writes four lines of Python that give the relevance by the first method."""
    found = explained(loaded, asked, asked.methods[0])
    place = str(EMBEDDED.get(loaded.name, loaded.name))
    kind = HEADS[facts_of(loaded.model).head][1].__name__
    at = "" if asked.column is None else f", at={int(asked.column)}"
    logit = lambda label: f"targets.logit({label}{at})"
    labels = found.attribution.target[0].reshape(-1).tolist()
    target = " - ".join(map(logit, labels))
    if loaded.explains == "answer":
        target = f"targets.answer({labels[0]}, {labels[1]})"
    dtype = str(loaded.model.dtype).removeprefix("torch.")
    by = "" if asked.unit == "token" else f".by({asked.unit!r}, tokenizer)"
    call, texts = "explain", [asked.given(loaded)]
    pin = PINS["models"].get(loaded.name)
    loading = pinned = f", revision={pin!r}" if pin else ""
    read = f"tokenizer, {texts!r}"
    if found.cut:
        how = cutting(loaded, texts[0])
        call, side = "attribute", how.pop("truncation_side")
        loading += f", truncation_side={side!r}"
        options = "".join(f", {key}={value!r}" for key, value in how.items())
        read = f"tokenizer({texts!r}{options}, return_tensors='pt'), tokenizer=tokenizer"
    return (
        f"import transformers; from lrp_axioms import {call}; "
        "from lrp_axioms.numeric import targets\n"
        f"tokenizer = transformers.AutoTokenizer.from_pretrained(place := {place!r}{loading})\n"
        f"model = transformers.{kind}.from_pretrained(place, dtype={dtype!r}{pinned}).eval()\n"
        f"found = {call}(model, {read}, method={asked.methods[0]!r}, target={target}){by}\n"
    )


def about(loaded: Classifier) -> Mapping[str, Any]:
    """Returns facts of the model for the page: its name, its kind, and classes to choose from."""
    classes = loaded.model.config.id2label if loaded.explains in ("class", "tag") else {}
    methods = [{"name": name, "label": x.label, "cost": x.cost} for name, x in METHODS.items()]
    return {
        "model": loaded.name,
        "kind": loaded.explains,
        "classes": [loaded.label(n) for n in classes],
        "chats": bool(loaded.tokenizer.chat_template),
        "columns": loaded.explains in ("tag", "masked token", "answer"),
        "methods": methods,
        "text": EXAMPLES.get(loaded.name, ""),
        "chosen": ["cp-lrp", "attnlrp", "gradient-x-input"],
        "legend": legend(loaded.explains),
        "least": LEAST,
    }
