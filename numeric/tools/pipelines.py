"""Explains each result of a pipeline of Transformers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers import Pipeline
from transformers.utils.chat_template_utils import Chat

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.attribution import attribute_each
from lrp_axioms.numeric.generation.explaining import explain_generation
from lrp_axioms.numeric.generation.result import Generation
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.targets import Label, Target, logit
from lrp_axioms.numeric.warning import warn_caller

OF_WORDS = ("FIRST", "MAX", "AVERAGE")
Result = dict[str, Any]
"""A result as the pipeline gives it."""


@dataclass(frozen=True, eq=False)
class Explained:
    """One result of a pipeline, and its explanation.

    result: as the pipeline gives it; empty for a target that was given
    tokens: of the text as the model reads it, special ones too
    attribution: of a batch of this one text
    """

    result: Result
    tokens: list[str]
    attribution: Attribution

    @property
    def relevance(self) -> Tensor:
        """The relevance of every token, (token,), in logits."""
        return self.attribution.relevance[0]

    def _repr_html_(self) -> str:
        return self.attribution._repr_html_()


def explain(
    pipe: Pipeline,
    text: str | dict[str, Any] | list[dict[str, str]],
    method: str | Composite = "attnlrp",
    target: Label | Target = None,
    **options: Any,
) -> list[Explained] | Generation:
    """Explains the results of ``pipe`` for one ``text``, one by one, in their order.

    A result is a class; a tag, or an entity, which is the sum of the tags that the model predicts
    for its tokens; or a token that fills a mask.  All share the forward passes of
    ``lrp_axioms.attribute_each``.  Text that a pipeline writes is explained by
    ``explain_generation``, and the prompt may be a chat.  ``target`` is explained in place of the
    results.  The pipeline's own tokenizer and options are used; ``method``, ``options`` and errors
    are as in ``lrp_axioms.attribute``.  Raises ValueError for other tasks, a list of texts, a text
    that the pipeline cuts into parts, and entities whose place it does not give.
    """
    if pipe.task not in (*RESULTS, WRITES):
        raise ValueError(
            f"pipeline for {pipe.task!r}; those that can be explained are for "
            f"{', '.join(map(repr, (*RESULTS, WRITES)))}; call lrp_axioms.attribute with its model "
            "and inputs"
        )
    if isinstance(text, list) and not (text and isinstance(text[0], dict)):
        raise ValueError("text is a list; pass one text at a time")
    fed = _model_inputs(pipe, text)
    tokenizer: Any = pipe.tokenizer  # all of these have one
    if target is None and pipe.task == WRITES:
        prompt = fed["input_ids"][0].tolist()
        answer = _written_ids(pipe, text)[len(prompt) :]
        return explain_generation(
            pipe.model, tokenizer, prompt, answer=answer, method=method, **options
        )
    found: list[Result] = [{}]
    targets: list[Any] = [target]
    if target is None:
        found, targets = RESULTS[pipe.task](pipe, pipe(text), fed)
    inputs = {key: x for key, x in fed.items() if key not in NOTES}
    tokens = tokenizer.convert_ids_to_tokens(fed["input_ids"][0].tolist())
    options = {"tokenizer": tokenizer} | options
    why = attribute_each(pipe.model, inputs, method, targets=targets, **options) if found else []
    return [Explained(x, tokens, each) for x, each in zip(found, why, strict=True)]


def _model_inputs(pipe: Pipeline, text: Any) -> dict[str, Any]:
    """Returns the model's inputs for one text, and the pipeline's notes."""
    chat: Any = Chat  # takes a list, whatever its annotation says
    text = chat(text) if isinstance(text, list) else text
    fed = pipe.preprocess(text, **pipe._preprocess_params)
    if pipe.task == WRITES:
        return {key: fed[key] for key in ("input_ids", "attention_mask")}
    if isinstance(fed, Mapping):
        return dict(fed)
    first, *others = fed
    if others:
        raise ValueError(
            f"the pipeline cuts this text into {len(others) + 1} parts; pass a text that its model "
            "reads at once"
        )
    return dict(first)


Results = tuple[list[Result], list[Target]]
"""The results of a pipeline, one by one, and their targets."""


def _classes(pipe: Pipeline, found: Any, _: object) -> Results:
    results = _flatten(found if isinstance(found, list) else [found])  # a pair alone is no list
    return results, [logit(str(x["label"])) for x in results]


def _tags(pipe: Pipeline, found: Any, fed: dict[str, Any]) -> Results:
    strategy = getattr(pipe._postprocess_params.get("aggregation_strategy"), "name", "")
    if strategy in OF_WORDS:
        warn_caller(
            f"aggregation_strategy={strategy.lower()!r} gives a word one tag, and relevance is of "
            "the tags that the model predicts for its tokens, which may be others; pass 'simple' "
            "to the pipeline"
        )
    return found, [_tag(pipe, x, fed) for x in found]


def _tag(pipe: Pipeline, found: Result, fed: dict[str, Any]) -> Target:
    if "index" in found:
        return logit(str(found["entity"]), at=found["index"])
    first, end = found["start"], found["end"]
    if first is None:
        raise ValueError(
            f"the pipeline does not say where {found['word']!r} stands, because its tokenizer is "
            "slow; pass a fast tokenizer, or aggregation_strategy='none' to the pipeline"
        )
    places = enumerate(fed["offset_mapping"][0].tolist())
    tags = (logit(at=n) for n, (a, b) in places if first <= a < b <= end)
    return sum(tags, start=Target(()))


def _fillings(pipe: Pipeline, found: Any, fed: dict[str, Any]) -> Results:
    tokenizer: Any = pipe.tokenizer
    columns = (fed["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    of_masks = [found] if len(columns) == 1 else found
    pairs = [(x, at) for at, each in zip(columns, of_masks, strict=True) for x in each]
    return [x for x, _ in pairs], [logit(x["token"], at=at) for x, at in pairs]


def _written_ids(pipe: Pipeline, text: Any) -> list[int]:
    """Returns the ids of the prompt and of the written text."""
    (found, *others) = _flatten(pipe(text, return_tensors=True))
    if others:
        raise ValueError(
            f"the pipeline writes {len(others) + 1} texts; set num_return_sequences=1, or call "
            "lrp_axioms.explain_generation with each as answer"
        )
    ids: list[int] = found["generated_token_ids"]
    return ids


def _flatten(found: list[Any]) -> list[Result]:
    return [x for each in found for x in (each if isinstance(each, list) else [each])]


WRITES = "text-generation"
RESULTS: dict[str, Callable[[Pipeline, Any, dict[str, Any]], Results]] = {
    "text-classification": _classes,
    "token-classification": _tags,
    "fill-mask": _fillings,
}
"""By task: splits a pipeline's output into results and targets."""
NOTES = {
    "special_tokens_mask", "offset_mapping", "sentence", "is_last", "word_ids", "word_to_chars_map",
}  # fmt: skip
"""Notes of a pipeline beside the inputs of its model."""
