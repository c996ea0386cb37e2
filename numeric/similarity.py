"""Explains why two texts are similar to a sentence encoder: by tokens, and by pairs of tokens."""

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.attribution import run_method
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.rules import wide
from lrp_axioms.numeric.methods.options import builtin, composite_of, resolve
from lrp_axioms.numeric.models.batches import DECODER
from lrp_axioms.numeric.models.checks import split_object
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.patches import twin
from lrp_axioms.numeric.models.texts import check_order, check_special, tokenized, warn_beyond
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.results.similarity import Similarity
from lrp_axioms.numeric.spelling import text_fault
from lrp_axioms.numeric.targets.chosen import Chosen, Rows
from lrp_axioms.numeric.targets.readout import Readout

MEASURES = ("cosine", "dot")
POOLING: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda rows: rows.mean(dim=1),
    "cls": lambda rows: rows[:, 0],
    "last": lambda rows: rows[:, -1],
    "max": lambda rows: rows.amax(dim=1),
}
"""By name: rows of texts without padding, (copy, token, channel), to (copy, channel)."""


def explain_similarity(
    model: PreTrainedModel | Any,
    tokenizer: PreTrainedTokenizerBase | None,
    a: str,
    b: str,
    *,
    method: str | Composite = "attnlrp",
    measure: str = "cosine",
    pooling: str | None = None,
    pairs: bool = True,
    epsilon: float = 0.0,
    batch_size: int = 128,
) -> Similarity:
    """Returns relevance of the tokens of two texts, and of pairs of these, for their similarity.

    ``model`` is a Transformers model without a head, whose rows become an embedding by
    ``pooling`` ("mean", the default, "cls", "last" or "max"), or a SentenceTransformer, which pools
    by its own modules; its tokenizer may be None.  ``measure`` is "cosine", whose norms are held
    constant as deviations of norms are, or "dot".  Relevance of a text, in units of the measure,
    holds the other text's embedding constant.  Relevance of the pair (i, j) is
    sum_m R_i^m(a) R_j^m(b), where R^m is LRP of channel m (BiLRP: Eberle et al. 2020, arXiv
    2003.05134; theorem 78).  ``pairs`` cost a backward pass for each channel and each token of
    ``b``, on ``batch_size`` copies at a time.  ``method`` is the name of a method by rules, or a
    Composite.
    Raises ValueError that lists bad texts and options, for a model that is no encoder, and for an
    object whose ``encode`` does more than its modules; other errors as in ``attribute``.
    """
    composite_of(method, None)
    epsilon, batch_size = builtin(epsilon), builtin(batch_size)
    name, run, used = resolve(method, {"epsilon": epsilon})
    inside, tokenizer, after = split_object(model, tokenizer)
    _check(a, b, measure=measure, pooling=pooling, batch_size=batch_size, pools=inside is model)
    check_order(inside, tokenizer)
    check_special(tokenizer, [a, b])
    encoder = _open(model, inside, after, pooling)

    def explain(text: Mapping[str, Tensor], weights: Tensor) -> list[Attribution]:
        """Explains weighted sums of channels, (sum, channel), each on a copy of the text."""
        found = []
        for part in weights.split(batch_size):
            copies = {key: x.expand(len(part), -1) for key, x in text.items()}
            label = torch.arange(part.shape[1], device=part.device).expand_as(part)
            sums = replace(encoder, targets=[Chosen(torch.zeros_like(label), label, part)])
            by_sums = lambda model, batch, _, sums=sums: run(model, batch, sums)
            found += run_method(inside, copies, [None], name, by_sums, used, tokenizer=tokenizer)
        return found

    inputs = [tokenized(tokenizer, [text], return_tensors="pt") for text in (a, b)]
    warn_beyond(inside, max(x["input_ids"].shape[1] for x in inputs))
    texts = [prepare(inside, x).arguments() for x in inputs]
    u, v = (_embedding(encoder, inside, text) for text in texts)
    for text, x in ((a, u), (b, v)) if after else ():
        _check_whole(model, text, x)
    scale = u.norm() * v.norm() if measure == "cosine" else 1.0
    found = explain(texts[0], v[None] / scale) + explain(texts[1], u[None] / scale)
    details = {}
    if pairs:
        by_channel = torch.cat([x.relevance for x in explain(texts[1], torch.eye(len(v)).to(v))])
        of_pairs = [x.relevance for x in explain(texts[0], by_channel.mT / scale)]
        details["pairs"] = torch.cat(of_pairs).mT
    width = max(x.relevance.shape[1] for x in found)
    return Similarity(
        relevance=pad_sequence([x.relevance[0] for x in found], batch_first=True),
        target=torch.zeros(2, dtype=torch.int64, device=u.device),
        logit=torch.cat([x.logit for x in found]),
        residual=torch.cat([x.residual for x in found]),
        method=name,
        options={"measure": measure, "pooling": encoder.name, "epsilon": epsilon},
        details=details,
        tokens=tuple((*t, *[None] * (width - len(t))) for x in found for t in x.tokens or ()),
        model=type(inside).__name__,
    )


def _check(a: object, b: object, *, batch_size: object, pools: bool, **named: object) -> None:
    """Raises ValueError that lists bad arguments; ``pools`` says whether a pooling is chosen."""
    known = {"measure": MEASURES, "pooling": (None, *POOLING) if pools else (None,)}
    texts = [(name, x, text_fault(x)) for name, x in (("a", a), ("b", b))]
    said = [f"{name}={reprlib.repr(x)} ({why}): pass one text" for name, x, why in texts if why]
    said += [
        f"{name}={x!r}: pass {' or '.join(map(repr, known[name]))}"
        for name, x in named.items()
        if x not in known[name]
    ]
    if type(batch_size) is not int or batch_size < 1:
        said.append(f"batch_size={batch_size!r}: pass a whole number of copies, at least 1")
    if said:
        raise ValueError("\n".join(said))


@dataclass(frozen=True, eq=False)
class _Encoder(Readout):
    """Reads the channels of embeddings as a row of logits; ``pool`` is as in ``POOLING``."""

    pool: Callable[[Tensor], Tensor] = field(kw_only=True)

    def run(self, model: Any, inputs: Any, example: Any = None, *, settle: Any = wide) -> Rows:
        rows = getattr(output := model(**inputs), "last_hidden_state", None)
        if rows is None:
            raise ValueError(
                f"{type(model).__name__} gives {', '.join(output)}, and no last_hidden_state; "
                "pass the model without its head, such as model.base_model"
            )
        return Rows(settle(self.pool(rows))[:, None], None)

    def choose(self, rows: Rows) -> Readout:
        return self


def _open(model: Any, inside: Any, after: list[nn.Module], pooling: str | None) -> _Encoder:
    """Finds the pooling: of the name, or of the modules after the model ``inside`` an object."""
    if DECODER in signature(inside.forward).parameters:
        raise ValueError(
            f"{type(inside).__name__} reads one text and writes another; pass its encoder, "
            "model.get_encoder()"
        )
    if inside is model:
        name = pooling or "mean"
        return _Encoder("embedding", name, [], pool=POOLING[name])
    if not after:
        raise ValueError(
            f"{type(model).__name__} has no module that pools; call explain(model, None, [(a, b)]) "
            "if it reads both texts at once, or pass the Transformers model in it"
        )

    def pool(rows: Tensor) -> Tensor:
        mask = torch.ones(rows.shape[:2], dtype=torch.int64, device=rows.device)
        features: Any = {"token_embeddings": rows, "attention_mask": mask}
        found: Tensor = reduce(lambda x, module: module(x), after, features)["sentence_embedding"]
        return found

    modes = [str(getattr(x, "pooling_mode", type(x).__name__)) for x in after]
    return _Encoder("embedding", ", ".join(modes), [], pool=pool)


def _embedding(encoder: _Encoder, model: Any, text: Mapping[str, Tensor]) -> Tensor:
    """Returns the embedding of a text, (channel,), as it is outside of all blocks."""
    plain = torch.autocast(text["input_ids"].device.type, enabled=False)
    with outside(), torch.inference_mode(mode=False), torch.no_grad(), plain:
        return encoder.run(model, text).logits[0, 0]


def _check_whole(model: Any, text: str, found: Tensor) -> None:
    """Raises ValueError where ``encode`` of an object returns another embedding, (channel,)."""
    own = wide(twin(model).encode([text], convert_to_tensor=True, show_progress_bar=False)[0])
    unit = torch.finfo(own.dtype).eps ** 0.5
    if own.shape != found.shape or (own.to(found) - found).abs().max() > unit * own.abs().max():
        raise ValueError(
            f"{reprlib.repr(text)}: encode() of this {type(model).__name__} returns another "
            "embedding than its modules for the whole text, as with prompts, truncation or lower "
            "case; set these to None, and put a prompt into the text"
        )
