"""Explains why two texts are similar to a sentence encoder: by tokens, and by pairs of tokens."""

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.attribution import run_method
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.rules import wide
from lrp_axioms.numeric.methods.options import composite_of, resolve
from lrp_axioms.numeric.models.batches import DECODER
from lrp_axioms.numeric.models.checks import split_object
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.patches import twin
from lrp_axioms.numeric.models.texts import check_order, check_special, tokenized, warn_beyond
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.results.similarity import Similarity
from lrp_axioms.numeric.spelling import did_you_mean, text_fault
from lrp_axioms.numeric.targets.chosen import Chosen, Rows
from lrp_axioms.numeric.targets.readout import Readout

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
    pooling: str | None = None,
    measure: str = "cosine",
    pairs: bool = True,
    epsilon: float = 0.0,
    batch_size: int = 32,
) -> Similarity:
    """Returns relevance of the tokens of two texts, and of pairs of these, for their similarity.

    ``model`` is a Transformers model without a head, whose rows become an embedding by
    ``pooling`` ("mean", the default, "cls", "last" or "max"), or a SentenceTransformer, which pools
    by its own modules; its tokenizer may be None.  ``measure`` is "cosine", whose norms are held
    constant as deviations of norms are, or "dot".  Relevance of a text holds the other text's
    embedding constant.  Relevance of the pair (i, j) is sum_m R_i^m(a) R_j^m(b), where R^m is LRP
    of channel m (BiLRP: Eberle et al. 2020, arXiv 2003.05134; theorem 78).  ``pairs`` cost a
    backward pass for each channel and each token of ``b``, on ``batch_size`` copies at a time.
    ``method`` is the name of a method by rules, or a Composite.
    Raises ValueError for bad texts and options, a model that is no encoder, and an object whose
    ``encode`` does more than its modules; other errors as in ``attribute``.
    """
    composite_of(method, None)
    name, run, used = resolve(method, {"epsilon": epsilon})
    _check(a, b, measure, batch_size)
    whole = model
    model, tokenizer = split_object(model, tokenizer)
    check_order(model, tokenizer)
    encoder = _open(whole, model, pooling)

    def explain(text: Mapping[str, Tensor], weights: Tensor) -> list[Attribution]:
        """Explains weighted sums of channels, (sum, channel), each on a copy of the text."""
        found = []
        for part in weights.split(batch_size):
            copies = {key: x.expand(len(part), -1) for key, x in text.items()}
            label = torch.arange(part.shape[1], device=part.device).expand_as(part)
            sums = replace(encoder, targets=[Chosen(torch.zeros_like(label), label, part)])
            by_sums = lambda model, batch, _, sums=sums: run(model, batch, sums)
            found += run_method(model, copies, [None], name, by_sums, used, tokenizer=tokenizer)
        return found

    check_special(tokenizer, [a, b])
    inputs = [tokenized(tokenizer, [text], return_tensors="pt") for text in (a, b)]
    warn_beyond(model, max(x["input_ids"].shape[1] for x in inputs))
    texts = [prepare(model, x).arguments() for x in inputs]
    with outside(), torch.inference_mode(mode=False), torch.no_grad():
        u, v = (encoder.run(model, text).logits[0, 0] for text in texts)
    for text, x in ((a, u), (b, v)) if whole is not model else ():
        _check_whole(whole, text, x)
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
        target=torch.zeros(2, dtype=torch.int64),
        logit=torch.cat([x.logit for x in found]),
        residual=torch.cat([x.residual for x in found]),
        method=name,
        options={"measure": measure, "pooling": encoder.name, "epsilon": epsilon},
        details=details,
        tokens=tuple((*t, *[None] * (width - len(t))) for x in found for t in x.tokens or ()),
        model=type(model).__name__,
    )


def _check(a: object, b: object, measure: object, batch_size: object) -> None:
    faults = {name: (x, text_fault(x)) for name, x in (("a", a), ("b", b))}
    said = [
        f"{name}={reprlib.repr(x)} ({why}): pass one text"
        for name, (x, why) in faults.items()
        if why
    ]
    if measure not in ("cosine", "dot"):
        said.append(f"measure={measure!r}: pass 'cosine' or 'dot'")
    if type(batch_size) is not int or batch_size < 1:
        said.append(f"batch_size={batch_size!r}: pass a whole number of copies, at least 1")
    if said:
        raise ValueError("\n".join(said))


@dataclass(frozen=True, eq=False)
class _Encoder(Readout):
    """Reads the channels of embeddings as a row of logits; ``pool`` is as in ``POOLING``."""

    pool: Callable[[Tensor], Tensor] = field(kw_only=True)

    def run(self, model: Any, inputs: Any, example: Any = None, *, settle: Any = None) -> Rows:
        rows = getattr(output := model(**inputs), "last_hidden_state", None)
        if rows is None:
            raise ValueError(
                f"{type(model).__name__} gives {', '.join(output)}, and no last_hidden_state; "
                "pass the model without its head, such as model.base_model"
            )
        return Rows((settle or wide)(self.pool(rows))[:, None], None)

    def choose(self, rows: Rows) -> Readout:
        return self


def _open(whole: Any, model: PreTrainedModel, pooling: str | None) -> _Encoder:
    """Finds the pooling of a model, or of the object of sentence-transformers it was found in."""
    if DECODER in signature(model.forward).parameters:
        raise ValueError(
            f"{type(model).__name__} reads one text and writes another; pass its encoder, "
            "model.get_encoder()"
        )
    if whole is model:
        if pooling not in (None, *POOLING):
            known = f"{', '.join(POOLING)}{did_you_mean([pooling], POOLING)}"
            raise ValueError(f"pooling={pooling!r}: pass one of {known}")
        return _Encoder("embedding", pooling or "mean", [], pool=POOLING[pooling or "mean"])
    _, *rest = whole.children()
    if pooling is not None or not rest:
        raise ValueError(
            f"pooling={pooling!r}: the {type(whole).__name__} has {len(rest)} modules that pool; "
            "pass a SentenceTransformer without pooling, or the Transformers model in it"
        )

    def pool(rows: Tensor) -> Tensor:
        mask = torch.ones(rows.shape[:2], dtype=torch.int64, device=rows.device)
        features: Any = {"token_embeddings": rows, "attention_mask": mask}
        found: Tensor = reduce(lambda x, module: module(x), rest, features)["sentence_embedding"]
        return found

    modes = [str(getattr(x, "pooling_mode", type(x).__name__)) for x in rest]
    return _Encoder("embedding", ", ".join(modes), [], pool=pool)


def _check_whole(whole: Any, text: str, found: Tensor) -> None:
    """Raises ValueError where ``encode`` of an object returns another embedding, (channel,)."""
    own = wide(twin(whole).encode([text], convert_to_tensor=True, show_progress_bar=False)[0])
    unit = torch.finfo(own.dtype).eps ** 0.5
    if own.shape != found.shape or (own.to(found) - found).abs().max() > unit * own.abs().max():
        raise ValueError(
            f"{reprlib.repr(text)}: encode() of this {type(whole).__name__} returns another "
            "embedding than its modules for the whole text, as with prompts, truncation or lower "
            "case; set these to None, and put a prompt into the text"
        )
