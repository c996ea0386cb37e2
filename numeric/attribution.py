"""One call for every method: ``attribute(model, inputs, method=..., target=...)``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.methods import amplification, padding
from lrp_axioms.numeric.methods.catalogue import WITH_IMAGES, WITH_RULES
from lrp_axioms.numeric.methods.named_tensors import of_tensors
from lrp_axioms.numeric.methods.options import builtin, composite_of, resolve
from lrp_axioms.numeric.models.batches import PIXELS, Batch
from lrp_axioms.numeric.models.checks import (
    check_code,
    check_no_wrapper,
    guarded_run,
    open_object,
)
from lrp_axioms.numeric.models.facts import Modules, reads_end
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.texts import (
    check_order,
    check_special,
    checked_texts,
    tokenized,
    warn_beyond,
)
from lrp_axioms.numeric.replay import calls
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.readout import Found, Readout

WARNING_OPTIONS = ("epsilon", "share", "checkpoint")  # of ``amplification.amplified``


def attribute(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    method: str | Composite = "attnlrp",
    target: Label | Target = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    **options: Any,
) -> Attribution:
    """Returns the share of each token, or position of an image, in one logit of a model.

    Any other torch module is explained with ``of="embedding"`` and ``read``, which name a tensor
    and a number: ``lrp_axioms.numeric.methods.named_tensors.of_tensors`` describes them.

    ``inputs`` is a tokenizer's batch, (batch, token), whose padding gets 0, or an image
    processor's, (batch, channel, height, width).  With ``decoder_input_ids`` of an encoder with a
    decoder, columns of targets count the decoder's tokens, and relevance has the tokens of both
    texts, one after the other.
    ``method`` is a name in ``METHODS`` or a Composite (LRP with its rules).  ``target`` is
    None (the predicted label), a class, or one class per example; of a language model, causal
    or masked, a token; or a ``Target`` of ``lrp_axioms.numeric.targets``: a label at a column, a
    span, an answer, a log-probability, or a sum or difference of these.  Under LRP a token receives
    the relevance of its word + position + type embedding before the first LayerNorm, summed over
    channels in float32 or wider.  Options, such as ``epsilon`` (default 0: the limit),
    ``share="word"`` and ``positions="signed"``, are described in the method's own function in
    ``lrp_axioms.numeric.methods``.  ``at="bert.encoder.layer.*"``, or a list of paths, also gives
    the relevance at the outputs of these modules (``Attribution.inside``).  ``tokenizer`` names the
    tokens for readers of the result, and knows which token is the mask.
    After some calls of one shape the operations of a stock model are replayed without its code; the
    result is equal in every bit (``lrp_axioms.numeric.replay.calls``).
    Runs in the model's dtype, autocast or not.  The model itself is never changed, and several
    threads may use it at once, but not train it meanwhile.
    Raises TypeError (unknown option), ValueError (bad value; bad inputs are all listed) and
    UnassignedOperation (all functions without a rule).
    """
    if "of" in options or "read" in options:
        if target is not None or tokenizer is not None:
            raise ValueError("target and tokenizer would be ignored: `read` returns the number")
        return of_tensors(model, inputs, method, **options)
    (found,) = attribute_each(
        model, inputs, method, targets=[target], tokenizer=tokenizer, **options
    )
    return found


def attribute_each(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    method: str | Composite = "attnlrp",
    *,
    targets: Sequence[Any],
    tokenizer: PreTrainedTokenizerBase | None = None,
    **options: Any,
) -> list[Attribution]:
    """Calls ``attribute`` for each of ``targets``, which share forward passes where they can.

    Rules, gradients and rollout take one forward pass in all, Leave-One-Out and Integrated
    Gradients as many as for one target; every target then has a backward pass of its own.  For
    a sum of targets, ``attribute`` gives the sum of their relevance for the price of one.
    With a budget, all targets share the choice of tokens that are left out.
    Arguments and errors are documented in ``attribute``; ValueError for no targets.
    """
    if not len(targets):
        raise ValueError("targets is empty; pass at least one, such as [logit(0), logit(1)]")
    model, tokenizer = open_object(model, tokenizer)
    return run_method(model, inputs, targets, *resolve(method, options), tokenizer=tokenizer)


Tokens: TypeAlias = tuple[tuple[str | None, ...], ...]  # of every text, None at padding


def _tokens(batch: Batch, tokenizer: PreTrainedTokenizerBase) -> Tokens:
    """The names of all tokens."""
    if not batch.texts:
        raise ValueError("tokenizer names the tokens of texts, and inputs has none; leave it out")

    def name(x: int) -> str:
        return str(tokenizer.convert_ids_to_tokens(x) or x)

    rows = zip(torch.cat(batch.texts, dim=1).tolist(), batch.present.tolist(), strict=True)
    return tuple(
        tuple(name(x) if present == 1 else None for x, present in zip(ids, mask, strict=True))
        for ids, mask in rows
    )


def explain(
    model: PreTrainedModel | Any,
    tokenizer: PreTrainedTokenizerBase | None,
    texts: str | Sequence[str | tuple[str, str]],
    *,
    method: str | Composite = "attnlrp",
    target: Label | Target = None,
    **options: Any,
) -> Attribution:
    """Calls ``attribute`` for texts and names their tokens (``Attribution.tokens``).

    ``texts`` is one text or several, which are padded on the right; a text may be a pair, such as
    ``[(question, context)]`` for a model that finds answers, or ``[(query, document)]`` for a
    CrossEncoder, whose own tokenizer is used if ``tokenizer`` is None.
    Whole texts are explained: a text longer than the model's positions is refused, and a text
    longer than a model with rotary positions was made for is explained with a warning.  Several
    texts are explained with a warning if padding changes the logits of the shortest text.  Texts
    that a language model writes are explained by ``explain_generation``.
    Raises ValueError for an empty list, for a value that is no text, for a text with special tokens
    that its tokenizer adds, and for several texts if the tokenizer has no token to pad with; the
    other arguments and errors are described in ``attribute``.
    """
    model, tokenizer = open_object(model, tokenizer)
    inputs = inputs_of(model, tokenizer, texts)
    found = attribute(model, inputs, method, target, tokenizer=tokenizer, **options)
    padding.warn(model, inputs)
    return found


def inputs_of(model: Any, tokenizer: Any, texts: str | Sequence[str | tuple[str, str]]) -> Any:
    """Checks texts and their tokenizer, and returns a batch; errors as in ``explain``."""
    check_order(model, tokenizer)
    texts = checked_texts(texts)
    check_special(tokenizer, texts)
    how: dict[str, Any] = {"padding_side": "left" if reads_end(model) else "right"}
    how |= {"padding": tokenizer.pad_token is not None, "return_attention_mask": True}
    inputs = tokenized(tokenizer, texts, **how)
    if len({len(ids) for ids in inputs["input_ids"]}) > 1:
        raise ValueError(
            f"{len(texts)} texts of different lengths need padding, and the tokenizer has no "
            "pad_token; set tokenizer.pad_token = tokenizer.eos_token, or pass one text at a time"
        )
    inputs = inputs.convert_to_tensors("pt")
    warn_beyond(model, inputs["input_ids"].shape[1])
    return inputs


def run_method(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    targets: Sequence[Any],
    name: str,
    run: Callable[..., Any],
    used: dict[str, Any],
    *,
    modules: Modules | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    composite: Composite | None = None,
) -> list[Attribution]:
    """Calls ``run(model, batch, readout)`` between the checks that all methods share.

    ``modules`` is an argument of ``inputs.prepare``, ``tokenizer`` of ``Readout.of``;
    ``composite`` has the rules of ``run``, unless ``run`` is a partial that has them.
    """
    composite = composite or getattr(run, "keywords", {}).get("composite")
    with outside(), torch.inference_mode(mode=False):
        batch = prepare(model, inputs, targets=targets, modules=modules)
        if batch.mixed and composite is None and name not in WITH_IMAGES:
            raise ValueError(
                f"method {name!r} explains texts alone, and inputs has {PIXELS}; pass one of "
                f"{', '.join((*WITH_RULES, *WITH_IMAGES))}, or a Composite"
            )
        readout = Readout.of(model, batch, targets, tokenizer=tokenizer)
        tokens = None if tokenizer is None else _tokens(batch, tokenizer)
        with torch.autocast(batch.device.type, enabled=False):
            with guarded_run(model, batch), readout.one_draw(model, batch):
                of_targets = calls.call(run, model, batch, readout)
                found = [
                    _check_result(model, batch, name, used, x, tokens, target.number)
                    for x, target in zip(of_targets, readout.targets, strict=True)
                ]
            for target, each in zip(readout.targets if composite else [], found, strict=False):
                one: Readout = replace(readout, targets=[target])
                options = {key: used[key] for key in WARNING_OPTIONS if key in used}
                given = composite, each.relevance, each.logit
                amplification.warn(model, batch, one, [given], **options)
            return found


def _check_result(
    model: PreTrainedModel,
    batch: Batch,
    name: str,
    used: dict[str, Any],
    found: Found,
    tokens: Tokens | None,
    number: str,
) -> Attribution:
    relevance, chosen, logit, details = found
    patches = details.pop("patches", None)
    for x in (relevance, *([] if patches is None else [patches])):
        if not x.isfinite().all():
            raise ValueError(_not_finite(model, batch, x.isfinite(), used))
    if batch.input_ids is not None:
        relevance = relevance * (batch.present == 1)
    residual = logit - relevance.sum(dim=1) - (0 if patches is None else patches.sum(dim=1))
    inside: Any = details.pop("inside", {})  # a dict of tensors, not a tensor
    model_name = type(model).__name__
    return Attribution(
        relevance, chosen, logit, residual, name, {**used}, details, inside, tokens, model_name,
        patches, number,
    )  # fmt: skip


def _not_finite(
    model: PreTrainedModel, batch: Batch, finite: Tensor, used: Mapping[str, Any]
) -> str:
    """Describes the places where relevance, (batch, token), is not ``finite``."""
    examples = (~finite).any(dim=1).nonzero()[:, 0].tolist()
    said = f"non-finite relevance in examples {examples}: "
    if "removal" not in used:
        instead = "pass epsilon=1e-6, or " if "epsilon" in used else ""
        return said + (
            f"a denominator is zero or the model's {model.dtype} overflows; {instead}load the "
            "model in float32"
        )
    wrong = ~finite & (batch.present == 1)
    tokens = {example: wrong[example].nonzero()[:, 0].tolist() for example in examples}
    listed = ", ".join(f"tokens {columns} of example {n}" for n, columns in tokens.items())
    hidden = isinstance(used["removal"], str)
    instead = "put a token in their place, removal=tokenizer.mask_token_id, or " if hidden else ""
    return said + (
        f"without {listed} the model has no finite logits, as where a row of attention loses its "
        f"only key, or its {model.dtype} overflows; {instead}load the model in float32"
    )


def propagation(
    model: nn.Module, method: str | Composite = "attnlrp", *, epsilon: float = 0.0
) -> Propagation:
    """Opens a block where autograd of your own code propagates relevance by ``method``.

    The gradient of a logit at an activation ``x`` is its relevance divided by ``x``:

        with propagation(model, "cp-lrp"):
            output = model(**inputs, output_hidden_states=True)
            x, logit = output.hidden_states[1], output.logits[0, 1]
            (gradient,) = torch.autograd.grad(logit, x)
        relevance = (x * gradient).sum(-1)  # of every token after layer 1, in logits

    Take logits, and ask for gradients, inside the block: a rule at the end of a model, such as
    the rule of a soft cap on logits, acts when logits are used.  Gradients reach back to the
    embeddings of words or patches of a Transformers model, and in any torch module to tensors of
    yours that require them.  Hooks may read
    activations, and libraries built on autograd work, such as Captum with
    ``LayerGradientXActivation``.  The rules hold in this thread alone; the model is not changed.
    Raises ValueError (unknown rules, bad ``epsilon``, a model that is compiled or in train mode),
    and on leaving the block UnassignedOperation (all functions without a rule).
    """
    check_no_wrapper(model)
    check_code(model)
    packed.check(model)
    return Propagation(model, composite_of(method, None)[1], eps=builtin(epsilon))
