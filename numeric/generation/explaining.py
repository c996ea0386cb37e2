"""Explains generated text in one call: ``explain_generation(model, tokenizer, prompt)``."""

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, GenerationMixin, PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.attribution import attribute_each, run_method
from lrp_axioms.numeric.generation.apart import checked_options, each_alone, of_columns
from lrp_axioms.numeric.generation.contrasts import GOES_ON, contrast_answers, parted
from lrp_axioms.numeric.generation.kept import Each, Kept, call_of, explain_rows
from lrp_axioms.numeric.generation.prompts import Prompt, read_prompt, start_of, unpadded
from lrp_axioms.numeric.generation.result import Generation
from lrp_axioms.numeric.generation.segments import REST, Place
from lrp_axioms.numeric.methods.options import builtin
from lrp_axioms.numeric.models import digests
from lrp_axioms.numeric.models.batches import SOUND, Batch
from lrp_axioms.numeric.models.checks import check_model
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.models.texts import check_order, is_chat, warn_beyond
from lrp_axioms.numeric.results.result import ROLLOUT, Attribution
from lrp_axioms.numeric.results.words import pieces
from lrp_axioms.numeric.targets import Target, log_probability, logit
from lrp_axioms.numeric.targets.readout import Found, Readout

SCALES = {"logit": logit, "log-probability": log_probability}


def explain_generation(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: str | Sequence[int] | Sequence[Mapping[str, Any]] | Tensor,
    *,
    answer: str | Sequence[int] | None = None,
    contrast: str | Sequence[int] | None = None,
    segments: Mapping[str, Place] | None = None,
    max_new_tokens: int = 20,
    generation_config: GenerationConfig | None = None,
    method: str | Composite = "attnlrp",
    scale: str = "logit",
    keep: str | PathLike[str] | None = None,
    each: Each | None = None,
    **options: Any,
) -> Generation:
    """Returns relevance for each token that a language model writes, of all tokens before it.

    prompt: a text, its ids, or the messages of a chat
    answer: a text or ids, explained as if the model had written it
    max_new_tokens: the most that ``model.generate`` writes greedily, as far as it has positions
    generation_config: another way to write, such as one that samples; its number of tokens holds

    Messages become a text by the tokenizer's chat template, which begins an answer, or goes on with
    the last message if that is the assistant's.  A chat has only the special tokens that its
    template writes, and special tokens at the ends of a text are not added again.  The text of an
    answer is tokenized alone, as a target (``text_target``); pass ids where a token spans the end
    of the prompt and the start of the answer.  Row i of the relevance is
    ``attribute(model, prompt + answer[:i], method, target=answer[i])``, but all rows share one
    forward pass, and each takes one backward pass by a ``method`` with rules; one more pass finds
    probabilities, and one over the prompt checks that the model does not see later tokens.  Other
    methods and ``options`` are as in ``attribute``.  ``scale`` is "logit" or "log-probability".
    ``contrast``, a text or ids, is an answer that was not written: the explained numbers add up to
    log P(answer) - log P(contrast) behind the tokens that both begin with.  Row 0 is the
    difference of two logits, for the first tokens that differ; row 1, if there is more, is the
    difference of log-probabilities of the rest.  It takes a second forward pass, and at most three
    backward passes.  A text ends with the end token if the answer does, and ids end with it, too.
    ``segments`` names parts of a text, each a text that is in the prompt once, or its first
    character and the one behind it; a chat has its messages, by role, if the tokenizer is fast.
    ``Generation.by("segment")`` adds up relevance by segment; tokens in none are the "rest".
    ``each(number, row)`` is called with every row, an ``Attribution``, as soon as it is found, and
    ``keep`` is a folder that holds the written text and all finished rows: after a kill, the same
    call goes on with them, to the same bits.  With either, eight rows share a forward pass.
    An encoder with a decoder reads ``prompt`` in the encoder, and its rows hold the relevance of
    both texts.  Where it reads a sound, as Whisper does, ``prompt`` is its ``input_features``,
    (1, band, frame), and relevance of the sound is in the residual.
    Warns where the whole text is longer than a model with rotary positions was made for.
    Raises ValueError for an empty prompt or answer, a contrast of shares of attention, models that
    write no text or whose logits depend on later tokens, a folder that keeps another call, and the
    errors of ``attribute``.
    """
    check_order(model, tokenizer)
    if scale not in SCALES:
        raise ValueError(f"scale={scale!r}: pass one of {', '.join(SCALES)}")
    if answer is not None and generation_config is not None:
        raise ValueError("generation_config would be ignored: `answer` is explained; leave one out")
    if contrast is not None and method == ROLLOUT:
        raise ValueError(f"method={method!r} has no logits to compare: leave out `contrast`")
    if contrast is not None and (keep is not None or each is not None):
        raise ValueError("a contrast has at most two rows; leave `keep` and `each` out")
    if not model.can_generate():
        raise ValueError(f"{type(model).__name__} writes no text; pass a language model")
    asked = read_prompt(model, tokenizer, prompt, answer, contrast, segments)
    check_model(model)  # before a text is written, and perhaps kept
    options = checked_options(method, options, told=each is not None or keep is not None)
    kept = None
    if keep is not None:
        told = [*map(builtin, answer)] if isinstance(answer, list | tuple) else answer
        how: dict[str, Any] = {"answer": told, "max_new_tokens": builtin(max_new_tokens)}
        how |= {"method": method, "scale": scale}
        how["generation_config"] = generation_config and generation_config.to_dict()
        if answer is None:
            how["generation_config of the model"] = digests.of_config(model.generation_config)
        kept = Kept(keep, call_of(model, tokenizer, asked.inputs, how | options))
    write = partial(_answer, model, tokenizer, asked, max_new_tokens, generation_config)
    before, written = kept.answer(write) if kept else write()
    ends = _end_tokens(model, generation_config, tokenizer)
    other, shared = parted(written, asked.contrast, ends) if asked.contrast else ([], 0)
    before, written = before + written[:shared], written[shared:]
    at, first = len(before) - 1, len(asked.source) + len(before)
    warn_beyond(model, at + max(len(written), len(other)))

    # Passes that are shared out over all tokens would be spent on later tokens, too.
    apart = method in ("shapley", "budgeted-loo") or options.get("budget") is not None

    def explain(answer: Sequence[int], targets: Sequence[Target]) -> list[Attribution]:
        inputs = asked.with_text(before, answer)
        own = {key: of_columns(x, inputs) if apart else x for key, x in options.items()}
        return attribute_each(model, inputs, method, targets=targets, **own)

    if other:
        found = contrast_answers(explain, written, other, at=at, column=first, apart=apart)
        relevance = _stacked(found, "relevance")
    else:
        targets = [SCALES[scale](x, at=at + n) for n, x in enumerate(written)]
        rows = each_alone(explain, written, targets) if apart else partial(explain, written)
        found = explain_rows(rows, targets, kept, each) if kept or each else rows(targets)
        # Later tokens have no relevance but rounding of the copies without them.
        relevance = _stacked(found, "relevance").tril(first - 1)
        relevance = torch.nn.functional.pad(relevance, (0, 1))
    chance = _log_probabilities(model, asked, before, written)
    tokens = [*pieces(tokenizer, asked.source), *pieces(tokenizer, before + written)]
    if other:  # in one or two rows
        rest = ["".join(tokens[first + 1 :]) or GOES_ON]
        tokens = tokens[: first + 1] + rest[: len(found) - 1]
        chance = torch.stack([chance[0], chance[1:].sum()])[: len(found)]
    names = asked.segments
    return Generation(
        relevance=relevance,
        logit=_stacked(found, "logit"),
        residual=_stacked(found, "residual"),
        tokens=tuple(tokens),
        source=len(asked.source),
        model=type(model).__name__,
        method=found[0].method,
        scale="log-probability difference" if other else scale,
        probability=chance.exp().cpu(),
        contrast="".join(pieces(tokenizer, before + other)[len(before) :]) if other else None,
        segments=names and names + (REST,) * (first - len(names)),
    )


def _stacked(rows: Sequence[Attribution], name: str) -> Tensor:
    """Stacks a tensor of all rows on the CPU, where rows that were kept are."""
    return torch.stack([getattr(row, name)[0].cpu() for row in rows])


def explain_generations(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Any] | Mapping[str, Any],
    *,
    answers: Sequence[Any] | None = None,
    contrasts: Sequence[Any] | None = None,
    segments: Sequence[Mapping[str, Place]] | None = None,
    keep: str | PathLike[str] | None = None,
    **options: Any,
) -> list[Generation]:
    """Calls ``explain_generation`` for each prompt of a list or a batch, without padding.

    ``prompts`` is a list of texts, ids or chats, or a tokenizer's batch, whose masked tokens at the
    ends of its rows are left out.  ``answers``, ``contrasts`` and ``segments`` have one per prompt,
    and the folder ``keep`` has a folder for each: text-1, text-2 and so on.
    Options and errors are described in ``explain_generation``.
    Raises ValueError for no prompts, another number of answers, and a mask with holes.
    """
    rows = unpadded(prompts) if isinstance(prompts, Mapping) else prompts
    if isinstance(rows, str) or is_chat(rows) or not len(rows):
        raise ValueError(f"prompts={reprlib.repr(prompts)}: pass a list with at least one prompt")
    given = {"answers": answers, "contrasts": contrasts, "segments": segments}
    own: dict[str, Any] = {name: x for name, x in given.items() if x is not None}
    if keep is not None:
        own["keep"] = [Path(keep, f"text-{n + 1}") for n in range(len(rows))]
    wrong = [
        f"{name}={reprlib.repr(x)}: pass one per prompt, {len(rows)} in all"
        for name, x in own.items()
        if isinstance(x, str | Mapping) or len(x) != len(rows)
    ]
    if wrong:
        raise ValueError("\n".join(wrong))
    one = {"answers": "answer", "contrasts": "contrast"}
    each = [{one.get(name, name): x[n] for name, x in own.items()} for n in range(len(rows))]
    return [
        explain_generation(model, tokenizer, row, **options, **more)
        for row, more in zip(rows, each, strict=True)
    ]


def _answer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    asked: Prompt,
    count: int,
    config: GenerationConfig | None,
) -> tuple[list[int], list[int]]:
    """Returns the ids before an answer, in the text that goes on with it, and the answer's."""
    if asked.answer is not None:
        return [start_of(model)] if asked.two else asked.ids, asked.answer
    end = 1 if asked.two else len(asked.ids)
    written = _write(model, tokenizer, asked.inputs, end, count, config)
    if not written[end:]:
        raise ValueError("nothing was written: the model ends at once; pass answer")
    return written[:end], written[end:]


def _end_tokens(
    model: PreTrainedModel, config: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase
) -> set[Any]:
    """Returns the tokens that end an answer, by the config of generation and the tokenizer."""
    ends = getattr(config, "eos_token_id", None)
    if ends is None:  # ``generate`` then takes the ends of the model's own config
        ends = getattr(model.generation_config, "eos_token_id", None)
    return {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}


def _log_probabilities(
    model: PreTrainedModel, asked: Prompt, before: list[int], written: list[int]
) -> Tensor:
    """Returns the log-probability of each written token; checks that none depends on later ones."""
    at = len(before) - 1
    first = logit(written[0], at=at)
    targets = [first, *(log_probability(x, at=at + n) for n, x in enumerate(written))]
    inputs = asked.with_text(before, written)
    whole, *likely = run_method(model, inputs, targets, "the logits alone", _logits_alone, {})
    _check_first(model, asked.with_text(before, written[:1]), first, whole.logit)
    return torch.stack([each.logit[0] for each in likely])


def _check_first(
    model: PreTrainedModel, inputs: Mapping[str, Tensor], target: Target, whole: Tensor
) -> None:
    """Raises ValueError unless the first written token's logit is the same without later tokens."""
    (alone,) = run_method(model, inputs, [target], "the logit alone", _logits_alone, {})
    few_bits = getattr(model, "is_quantized", False)  # rounding may depend on all tokens
    unit = torch.finfo(torch.bfloat16 if few_bits else model.dtype).eps
    unit = max(unit, torch.finfo(torch.float32).eps)
    if ((alone.logit - whole).abs() > unit**0.5 * alone.details["size"]).any():
        raise ValueError(
            f"{type(model).__name__} sees the tokens that follow: the first written token has "
            f"{whole.item():.6g} in the whole text and {alone.logit.item():.6g} where nothing "
            "follows it; call attribute() for each token, on the text before it"
        )


def _logits_alone(model: PreTrainedModel, batch: Batch, readout: Readout) -> Iterator[Found]:
    """Finds the logits and no relevance, as a method."""
    with torch.no_grad():
        rows = readout.run(model, batch.arguments())
    nothing = torch.zeros_like(batch.present, dtype=rows.logits.dtype)
    for chosen in readout.choose(rows).targets:
        yield Found(nothing, chosen.target, chosen.of(rows), {"size": chosen.size(rows)})


@torch.no_grad()
def _write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    read: dict[str, Tensor],
    length: int,
    count: int,
    config: GenerationConfig | None,
) -> list[int]:
    """Writes greedily, or as ``config`` says; of the tokens it returns, ``length`` were given."""
    if config is not None and config.max_new_tokens is not None:
        count = config.max_new_tokens
    elif config is not None and config.max_length is not None:
        count = config.max_length - length
    count = builtin(count)
    if type(count) is not int or count < 1:
        raise ValueError(f"max_new_tokens={count!r}: pass a whole number of tokens, at least 1")
    read = {key: x.to(model.device) for key, x in read.items()}
    # The last token is written and not read.
    count = min(count, facts_of(model).written_at_most + 1 - length)
    if "input_ids" in read:
        read["attention_mask"] = torch.ones_like(read["input_ids"])
    # Not by a class's own code, such as Whisper's, which adds tokens that it did not choose.
    by: Any = GenerationMixin if SOUND in read else type(model)
    how: dict[str, Any] = {"do_sample": False, "num_beams": 1}
    if config is not None:
        how = {"generation_config": config}
    # Other sequences would fill the best one with padding; a tokenizer finds strings that end one.
    how |= {"num_return_sequences": 1, "max_new_tokens": count, "tokenizer": tokenizer}
    found = by.generate(model, **read, **how)
    written: list[int] = getattr(found, "sequences", found)[0].tolist()
    return written
