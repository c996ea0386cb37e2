"""A question of the page, checked before a model runs."""

import json
from dataclasses import dataclass, fields
from typing import Any, Self

from lrp_axioms.benchmarks.commands.console import check_names
from lrp_axioms.benchmarks.commands.targets import parse_target
from lrp_axioms.benchmarks.sources.faults import check_sentence
from lrp_axioms.benchmarks.sources.models import Classifier
from lrp_axioms.numeric.methods.catalogue import METHODS

UNITS = ("token", "word")
LONGEST = 20_000  # letters of a text
NAMED = ("context", "target", "contrast", "column", "answer")  # texts that may be left empty
CHOSEN = ("truncate", "chat")  # yes or no


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The texts, methods and target that a reader typed; an empty field is None.

    context: the text that answers a question
    contrast: the class or token whose logit is subtracted
    column: the number of the token whose tag or prediction is explained
    answer: a text that a language model might have written
    truncate: whether a text that is too long is cut
    chat: whether a language model answers the text as a message
    """

    text: str
    methods: tuple[str, ...]
    context: str | None = None
    target: str | None = None
    contrast: str | None = None
    column: str | None = None
    answer: str | None = None
    truncate: bool = False
    chat: bool = False
    unit: str = UNITS[0]

    @classmethod
    def of(cls, body: bytes | str) -> Self:
        """Reads a request; raises ValueError that names the first fault."""
        try:
            data = json.loads(body, parse_int=float)  # int() limits the digits
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the request is no JSON object: {error}") from error
        if not isinstance(data, dict):
            raise ValueError("the request is no JSON object")
        if unknown := data.keys() - {x.name for x in fields(cls)}:
            raise ValueError(f"the request has unknown fields: {', '.join(sorted(unknown))}")
        text, methods, unit = data.get("text"), data.get("methods"), data.get("unit", UNITS[0])
        named = {key: data.get(key) for key in NAMED}
        for key, value in ({"text": text or ""} | named).items():
            if not isinstance(value, str | None) or len(value or "") > LONGEST:
                raise ValueError(f"{key}: write a text of at most {LONGEST} letters")
        if not methods or not isinstance(methods, list) or {*map(type, methods)} - {str}:
            raise ValueError("methods: choose at least one")
        chosen = {key: data.get(key, False) for key in CHOSEN}
        if wrong := [key for key, value in chosen.items() if not isinstance(value, bool)]:
            raise ValueError(f"{', '.join(wrong)}: write true or false")
        check_names("method", methods, METHODS)
        check_names("unit", [str(unit)], UNITS)
        given = {key: value if (value or "").strip() else None for key, value in named.items()}
        for each in (text or "", *filter(None, [given["context"], given["answer"]])):
            check_sentence(each)
        if not ((column := given["column"] or "0").isdecimal() and len(column) < 10):
            raise ValueError(f"column {column!r}: write the number of a token, from 0")
        return cls(text=text, methods=tuple(dict.fromkeys(methods)), unit=unit, **given, **chosen)

    def texts(self, loaded: Classifier) -> list[str]:
        """Returns the text, and the context for a model that finds answers."""
        if loaded.explains != "answer":
            return [self.text]
        if self.context is None:
            raise ValueError("context: write the text that answers the question")
        return [self.text, self.context]

    def given(self, loaded: Classifier) -> str | tuple[str, str]:
        """Returns the text, or the pair of question and context."""
        one, *other = self.texts(loaded)
        return (one, *other) if other else one

    def goal(self, loaded: Classifier, tokens: list[str]) -> Any:
        """Returns the target as ``attribute`` takes it; raises ValueError for wrong names."""
        column = None if self.column is None else int(self.column)
        return parse_target(loaded, self.target, column, tokens, self.contrast)
