"""AtMan: the effect of lower attention scores of a token, by one forward pass for each."""

from collections.abc import Iterator
from numbers import Real

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import GRADIENT_X_INPUT
from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.engine.attended import Damping
from lrp_axioms.numeric.engine.rules import wide
from lrp_axioms.numeric.methods import meetings
from lrp_axioms.numeric.methods.mask_relevance import damped_passes, run
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets.readout import Found, Readout


def atman(
    model: PreTrainedModel, batch: Batch, readout: Readout, *, factor: float = 0.9
) -> Iterator[Found]:
    """Computes R_i = f(x) - f(x, every score of key i times 1 - factor) (Deiseroth et al., 2023).

    The scores of key i are multiplied in every row, head and layer, before the mask is added
    (arXiv 2301.08110; the paper's factor is 0.9).  f is the target in logits, as for the other
    methods here, where the paper takes its cross-entropy.  The suppression of tokens of similar
    embeddings together is left out.  Terms that a model adds to its scores outside of a fused
    kernel, such as biases of position, are taken for parts of them.
    A negative score rises when it is multiplied: the token then gets more attention.  The authors'
    code subtracts each row's least score first; this follows the formula.
    The passes run under the rules' engine, which keeps a pass's activations until it ends.
    Relevance is not conserved.
    Raises ValueError for a bad factor, inputs that are not texts, an encoder with a decoder, and
    attention that is not from each token to every token.
    """
    if not isinstance(factor, Real) or isinstance(factor, bool) or not 0 < factor <= 1:
        raise ValueError(
            f"factor={factor!r}: pass the part of a score to take away, above 0 and at most 1"
        )
    meetings.check_text(model, batch)
    model = packed.unpack(model)
    _, seen, rows = run(model, batch, readout, GRADIENT_X_INPUT)
    readout = readout.choose(rows)
    logits = [wide(each.of(rows)).detach() for each in readout.targets]
    calls, others = meetings.of_all_tokens(model, batch, seen)
    if others:
        raise ValueError(
            f"{type(model).__name__} also attends to what are no tokens of the text, where none "
            f"can be suppressed:{others}\n{meetings.INSTEAD}"
        )
    places = [x.place for x in seen]
    del seen, rows
    dampings = _suppressions(batch, factor, logits[0].dtype, frozenset(calls))
    relevance = [torch.zeros_like(batch.present, dtype=logit.dtype) for logit in logits]
    for each in damped_passes(model, batch, readout, GRADIENT_X_INPUT, dampings, places):
        for found, logit, lower in zip(relevance, logits, each.logits, strict=True):
            found += each.chosen[:, 0] * (logit - lower.detach())[:, None]
    for target, found, logit in zip(readout.targets, relevance, logits, strict=True):
        yield Found(found, target.target, logit, {})


def _suppressions(
    batch: Batch, factor: float, dtype: torch.dtype, calls: frozenset[int]
) -> Iterator[tuple[Tensor, Damping]]:
    """Yields the n-th token of each text, and the factors on the scores of its key."""
    numbers = batch.present.cumsum(dim=1) * batch.present  # from 1; padding is 0
    for n in range(1, int(numbers.max()) + 1):
        chosen = (numbers == n)[:, None]
        yield chosen, Damping(1 - factor * chosen.to(dtype), calls, multiplies=True)
