"""What a pipeline of Transformers says, each of its results explained."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from transformers import Pipeline
from transformers.utils.chat_template_utils import Chat

from axioms.composites import Composite
from numeric.attribution import attribute_each
from numeric.generation.explaining import explain_generation
from numeric.generation.result import Generation
from numeric.result import Attribution
from numeric.targets import Target, logit


@dataclass(frozen=True, eq=False)
class Explained:
    """One result of a pipeline, and why.

    result: as the pipeline gives it; empty for a target that was given
    tokens: of the text as the model reads it, special ones too
    attribution: of a batch of this one text
    """

    result: dict
    tokens: list[str]
    attribution: Attribution

    @property
    def relevance(self) -> Tensor:
        """Of every token, (token,), in logits."""
        return self.attribution.relevance[0]

    def _repr_html_(self) -> str:
        return self.attribution._repr_html_()


def explain(
    pipe: Pipeline,
    text: str | dict | list,
    method: str | Composite = "attnlrp",
    target: int | Target | None = None,
    **options,
) -> list[Explained] | Generation:
    """Why ``pipe`` says what it says of one ``text``: an explanation per result, in its order.

    A result is a class; a tag, or an entity, which is the sum of the tags that the model predicts
    for its tokens; or a token that fills a mask.  All share the forward passes of
    ``numeric.attribute_each``.  What a pipeline writes is explained as ``explain_generation`` does,
    and its text may be a chat.  ``target`` is explained in place of the results.
    The pipeline's own tokenizer and options are used; ``method`` and ``options`` are those of
    ``numeric.attribute``, which says what is raised.  Raises ValueError for other tasks, a list of
    texts, a text that the pipeline cuts into parts, and entities whose place it does not give.
    """
    if pipe.task not in (*RESULTS, WRITES):
        raise ValueError(
            f"pipeline for {pipe.task!r}; those that can be explained are for "
            f"{', '.join(map(repr, (*RESULTS, WRITES)))}; call numeric.attribute with its model "
            "and inputs"
        )
    if isinstance(text, list) and not (text and isinstance(text[0], dict)):
        raise ValueError("text is a list; pass one text at a time")
    fed = _fed(pipe, text)
    if target is None and pipe.task == WRITES:
        prompt = fed["input_ids"][0].tolist()
        answer = _written(pipe, text)[len(prompt) :]
        return explain_generation(
            pipe.model, pipe.tokenizer, prompt, answer=answer, method=method, **options
        )
    found, targets = [{}], [target]
    if target is None:
        found, targets = RESULTS[pipe.task](pipe, pipe(text), fed)
    inputs = {key: x for key, x in fed.items() if key not in NOTES}
    tokens = pipe.tokenizer.convert_ids_to_tokens(fed["input_ids"][0].tolist())
    options = {"tokenizer": pipe.tokenizer} | options
    why = attribute_each(pipe.model, inputs, method, targets=targets, **options) if found else []
    return [Explained(x, tokens, each) for x, each in zip(found, why, strict=True)]


def _fed(pipe, text) -> dict:
    """What the pipeline feeds its model for one text, and notes for itself."""
    text = Chat(text) if isinstance(text, list) else text
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
    return first


def _classes(pipe, found, _):
    found = _flat(found)
    return found, [logit(pipe.model.config.label2id[x["label"]]) for x in found]


def _tags(pipe, found, fed):
    return found, [_tag(pipe, x, fed) for x in found]


def _tag(pipe, found, fed):
    if "index" in found:
        return logit(pipe.model.config.label2id[found["entity"]], at=found["index"])
    first, end = found["start"], found["end"]
    if first is None:
        raise ValueError(
            f"the pipeline does not say where {found['word']!r} stands, because its tokenizer is "
            "slow; pass a fast tokenizer, or aggregation_strategy='none' to the pipeline"
        )
    places = enumerate(fed["offset_mapping"][0].tolist())
    return sum(logit(at=n) for n, (a, b) in places if first <= a < b <= end)


def _fillings(pipe, found, fed):
    columns = (fed["input_ids"][0] == pipe.tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    of_masks = [found] if len(columns) == 1 else found
    pairs = [(x, at) for at, each in zip(columns, of_masks, strict=True) for x in each]
    return [x for x, _ in pairs], [logit(x["token"], at=at) for x, at in pairs]


def _written(pipe, text) -> list[int]:
    """The ids of the prompt and of what the pipeline writes."""
    (found, *others) = _flat(pipe(text, return_tensors=True))
    if others:
        raise ValueError(
            f"the pipeline writes {len(others) + 1} texts; set num_return_sequences=1, or call "
            "numeric.explain_generation with each as answer"
        )
    return found["generated_token_ids"]


def _flat(found: list) -> list[dict]:
    return [x for each in found for x in (each if isinstance(each, list) else [each])]


WRITES = "text-generation"
RESULTS = {"text-classification": _classes, "token-classification": _tags, "fill-mask": _fillings}
"""Task -> the results of a pipeline, one by one, and their targets."""
NOTES = {
    "special_tokens_mask", "offset_mapping", "sentence", "is_last", "word_ids", "word_to_chars_map",
}  # fmt: skip
"""What a pipeline keeps beside the inputs of its model."""
