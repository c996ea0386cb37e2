"""Explains a text by several methods, as data for a page and as files."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from lrp_axioms.benchmarks.commands.audit import data_of, text_inputs
from lrp_axioms.benchmarks.commands.console import check_names
from lrp_axioms.benchmarks.commands.explained import Explained, explain_text
from lrp_axioms.benchmarks.commands.targets import parse_target
from lrp_axioms.benchmarks.sources.faults import check_sentence
from lrp_axioms.benchmarks.sources.models import EMBEDDED, HEADS, Classifier
from lrp_axioms.numeric.evaluation.correlation import pearson
from lrp_axioms.numeric.methods.catalogue import METHODS, WITH_RULES
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.results.result import ROLLOUT, page

UNITS = ("token", "word")
SHOWN = ("class", "next token")
FILES = {"html": "text/html", "png": "image/png", "json": "application/json"}
MOST_WRITTEN = 64  # tokens
EXAMPLES = {
    "embedded": "not a bad film",
    "embedded-english": (
        "Anna put the key in the box. Ben put the cup in the garden. The key is in the"
    ),
    "embedded-lm": "anna apple bert pen ; anna",
}
LONGEST = 20_000  # letters of a text


@dataclass(frozen=True)
class Asked:
    """A question of the page: a text, names of methods, a target or None, and a unit."""

    text: str
    methods: tuple[str, ...]
    target: str | None
    unit: str

    @classmethod
    def of(cls, data: Any) -> "Asked":
        """Checks data of a request; raises ValueError that lists all faults."""
        if not isinstance(data, dict):
            raise ValueError("the request is no JSON object")
        text, methods, target = data.get("text"), data.get("methods"), data.get("target")
        unit = data.get("unit", UNITS[0])
        if not isinstance(text, str) or len(text) > LONGEST:
            raise ValueError(f"text: write a text of at most {LONGEST} letters")
        if (
            not isinstance(methods, list)
            or not methods
            or not all(isinstance(x, str) for x in methods)
        ):
            raise ValueError("methods: choose at least one")
        if not isinstance(target, str | None):
            raise ValueError("target: write a class or a token")
        check_sentence(text)
        check_names("method", methods, METHODS)
        check_names("unit", [unit], UNITS)
        return cls(text, tuple(dict.fromkeys(methods)), (target or "").strip() or None, unit)


def check(loaded: Classifier) -> None:
    """Raises ValueError for a model whose answers the page does not show."""
    if loaded.explains not in SHOWN:
        raise ValueError(
            f"{loaded.name} predicts a {loaded.explains}, and the page shows models that predict a "
            f"{' or a '.join(SHOWN)}; use `lrp-axioms explain`"
        )


def explained(loaded: Classifier, asked: Asked, method: str) -> Explained:
    """Explains the text by one method, by tokens or words."""
    found = explain_text(
        loaded,
        asked.text,
        model=loaded.name,
        method=method,
        target=lambda tokens: parse_target(loaded, asked.target, None, tokens),
        options={},
        columns=None,
    )
    if asked.unit == "token":
        return found
    a = found.attribution.by(asked.unit, loaded.tokenizer)
    _, words, relevance = zip(*a.lines(0), strict=True)
    section = replace(found.section, tokens=words, relevance=relevance)
    return replace(found, attribution=a, section=section)


def answer(loaded: Classifier, asked: Asked) -> dict[str, Any]:
    """Explains by every method: data for the page, with agreement where Leave-One-Out is asked."""
    found = {method: explained(loaded, asked, method) for method in asked.methods}
    one = next(iter(found.values()))
    others = [x for name, x in found.items() if name != ROLLOUT]
    top = max((abs(r) for x in others for r in x.section.relevance), default=0.0)
    return {
        "said": one.said,
        "kind": loaded.explains,
        "logit": one.attribution.logit[0].item(),
        "probability": probability(loaded, asked.text, one),
        "top": top,
        "methods": [_row(name, x, found.get("loo")) for name, x in found.items()],
    }


def _row(name: str, found: Explained, loo: Explained | None) -> dict[str, Any]:
    values = np.array([found.section.relevance])
    r = math.nan
    if loo is not None and loo is not found:
        keep = np.ones(values.shape, dtype=bool)
        (r,) = pearson(values, np.array([loo.section.relevance]), keep)
    return {
        "name": name,
        "label": METHODS[name].label,
        "tokens": list(found.section.tokens),
        "relevance": list(found.section.relevance),
        "residual": found.attribution.residual[0].item(),
        "caption": found.section.caption,
        "shares": name == ROLLOUT,
        "audited": name in WITH_RULES,
        "agreement": None if math.isnan(r) else float(r),
    }


@torch.no_grad()
def probability(loaded: Classifier, text: str, found: Explained) -> float:
    """Returns the probability of the explained class or next token."""
    inputs = loaded.tokenizer([text], return_tensors="pt").to(loaded.model.device)
    logits = loaded.model(**inputs).logits[0]
    row = logits if logits.ndim == 1 else logits[-1]
    label = found.attribution.target[0].item()
    return row.double().softmax(dim=-1)[label].item()


def file(loaded: Classifier, asked: Asked, kind: str) -> bytes:
    """Writes the explanation by the first method as a page, a picture, or data."""
    if kind not in FILES:
        raise ValueError(f"{kind!r}: pass one of {', '.join(FILES)}")
    found = explained(loaded, asked, asked.methods[0])
    if kind == "png":
        return found.png()
    if kind == "html":
        return page([found.section], found.attribution).encode()
    return json.dumps(found.facts()).encode()


def audited(loaded: Classifier, asked: Asked) -> str:
    """Audits the explanation by the first method, and returns the page of the audit."""
    from lrp_axioms.numeric.auditing.audit import audit
    from lrp_axioms.numeric.auditing.page import page as page_of

    method = asked.methods[0]
    check_names("method", [method], WITH_RULES)
    inputs, given = text_inputs(loaded, [asked.text])
    target = parse_target(loaded, asked.target, None, given["tokens"])
    found = audit(loaded.model, inputs.to(loaded.model.device), method, target)
    return page_of(data_of(found, loaded, given))


def written(loaded: Classifier, asked: Asked, count: int) -> str:
    """Lets a language model write up to ``count`` tokens, and returns the page of their causes."""
    from lrp_axioms import explain_generation

    if loaded.explains != "next token":
        raise ValueError(f"{loaded.name} writes no text; serve a language model")
    if not 1 <= count <= MOST_WRITTEN:
        raise ValueError(f"count={count}: write 1 to {MOST_WRITTEN} tokens")
    method = asked.methods[0]
    how = {"max_new_tokens": count, "method": method}
    return explain_generation(loaded.model, loaded.tokenizer, asked.text, **how).html(asked.unit)


def python(loaded: Classifier, asked: Asked, target: int) -> str:
    """Writes four lines of Python that give the relevance of tokens by the first method."""
    place = str(EMBEDDED.get(loaded.name, loaded.name))
    kind = HEADS[facts_of(loaded.model).head][1].__name__
    return (
        f"import transformers; from lrp_axioms import explain; place = {place!r}\n"
        f'model = transformers.{kind}.from_pretrained(place, dtype="float32").eval()\n'
        "tokenizer = transformers.AutoTokenizer.from_pretrained(place)\n"
        f"found = explain(model, tokenizer, {asked.text!r}, "
        f"method={asked.methods[0]!r}, target={target})\n"
    )


def about(loaded: Classifier) -> Mapping[str, Any]:
    """Returns facts of the model for the page: its name, its kind, and classes to choose from."""
    classes = loaded.model.config.id2label if loaded.explains == "class" else {}
    methods = [{"name": name, "label": x.label, "cost": x.cost} for name, x in METHODS.items()]
    return {
        "model": loaded.name,
        "kind": loaded.explains,
        "classes": [loaded.label(n) for n in classes],
        "methods": methods,
        "text": EXAMPLES.get(loaded.name, ""),
        "chosen": ["cp-lrp", "attnlrp", "gradient-x-input"],
    }
