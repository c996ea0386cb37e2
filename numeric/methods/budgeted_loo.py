"""Leave-One-Out of a few tokens: mask relevance chooses them, and estimates all others."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods.loo import losses
from lrp_axioms.numeric.methods.mask_relevance import mask_relevance
from lrp_axioms.numeric.methods.memory_budget import AUTO
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets.readout import Found, Readout

FIRST = 4  # tokens left out before an error is estimated
SURE = 2  # root mean squares; about 95 % of normal errors are within
MEANS = 6  # mean flows that are added before a next token; docs/LONG_TEXTS.md has the coverage


def budgeted_loo(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    *,
    budget: int | None = None,
    tolerance: float | None = None,
    batch_size: int = 128,
    memory: int | str = AUTO,
) -> Iterator[Found]:
    """Computes LOO_i of up to ``budget`` tokens, mask relevance R_i of all others (theorem 55).

    The token whose row is read is left out first, if there is only one such row: R_i does not
    contain the change that its mask makes in its own row.  Then come tokens with the largest flow,
    the sum of absolute mask relevance over layers and heads; where much of it cancels, a first
    order says least.  Of several targets, each has its flow divided by its sum.  A budget of all
    tokens gives Leave-One-Out by the attention mask.
    ``details`` hold "by_token" (batch, token), 1 where a token was left out, "passes"
    (batch,), and "error" (batch, token), in logits: the flow of the token, times ``SURE``, times
    the ratio of |LOO - R| to the flow of the tokens that were left out, in root mean squares.  It
    is an estimate and not a bound.  It is infinite if these tokens have no flow, such as the last
    token of a causal model.  Before a language model's next token, ``MEANS`` mean flows of the text
    are added to each flow: where a softmax is saturated, a token that matters has next to no flow.
    Tokens that a language model's last read row cannot see are exact for the target.
    With ``tolerance``, in logits, tokens are left out until no error of the text is larger or the
    budget is spent: ``FIRST`` of them at once, and in each later round at most as many as all
    before it.  ``budget=None`` then stands for all tokens, and without ``tolerance`` for ``FIRST``.
    ``batch_size`` and ``memory`` are as in ``leave_one_out``.  Relevance is not conserved.
    Raises ValueError for a bad option, and for all that ``mask_relevance`` and ``leave_one_out``
    refuse.
    """
    _check(budget, tolerance)
    texts = losses(model, batch, readout, batch_size=batch_size, memory=memory)
    found = list(mask_relevance(model, batch, texts.readout, heads=True))
    wide = texts.starts.dtype
    guess = torch.stack([x.relevance for x in found]).to(wide)
    flow = torch.stack([x.details["heads"].abs().sum(dim=(1, 2)) for x in found]).to(wide)
    tokens, words = guess.shape[2], texts.words.expand(len(found), -1, -1)
    next_token = texts.readout.head == heads.NEXT
    if next_token:
        columns = torch.arange(tokens, device=words.device)
        last = torch.stack([each.row.amax(dim=1) for each in texts.readout.targets])
        behind = columns > last[:, :, None]
        if not guess[behind].any():  # BERT as a language model may see them
            words = words & ~behind
    if budget is None:
        budget = FIRST if tolerance is None else tokens
    rows = torch.stack([x.details["rows"] for x in found]).any(dim=0)
    first = rows & (rows.sum(dim=1, keepdim=True) == 1)  # the one row that all logits are read from
    relevance, error, exact = by_rounds(
        texts.without,
        words,
        guess,
        flow,
        first,
        budget=min(budget, tokens),
        tolerance=tolerance,
        next_token=next_token,
    )
    by_token = exact.to(wide)
    for each, logit, own, unsure in zip(
        texts.readout.targets, texts.logits, relevance, error, strict=True
    ):
        details = {"by_token": by_token, "passes": exact.sum(dim=1), "error": unsure}
        yield Found(own, each.target, logit, details)


def _check(budget: int | None, tolerance: float | None) -> None:
    wrong = []
    if budget is not None and (type(budget) is not int or budget < 1):
        wrong.append(f"budget={budget!r}: pass None or a number of forward passes, at least 1")
    number = isinstance(tolerance, int | float) and not isinstance(tolerance, bool)
    if tolerance is not None and not (number and 0 <= tolerance < math.inf):
        wrong.append(
            f"tolerance={tolerance!r}: pass None or an error in logits, at least 0 and finite"
        )
    if wrong:
        raise ValueError("\n".join(wrong))


def by_rounds(
    without: Callable[[Tensor, Tensor], Tensor],
    words: Tensor,
    guess: Tensor,
    flow: Tensor,
    first: Tensor,
    *,
    budget: int,
    tolerance: float | None,
    next_token: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns relevance, its error, (target, batch, token), and the ``words`` left out.

    without: (copy,) examples and (copy, token) to leave out -> (copy, target), the loss
    words, guess, flow: (target, batch, token)   first: (batch, token), left out before all others
    """
    shares = flow / flow.sum(dim=2, keepdim=True).clamp(min=torch.finfo(flow.dtype).tiny)
    order = shares.amax(dim=0).masked_fill(first, torch.inf)
    relevance, exact = guess.clone(), torch.zeros_like(words[0])
    while True:
        error = _errors(relevance - guess, flow, exact, words, next_token=next_token)
        wanted, known = words.any(dim=0) & ~exact, exact.sum(dim=1)
        count = budget - known
        if tolerance is not None:
            wanted &= (error > tolerance).any(dim=0)
            count = count.minimum(known.clamp(min=FIRST))
        chosen = _mark_largest(order, wanted, count)
        if not chosen.any():
            return relevance, error, exact
        example, token = chosen.nonzero(as_tuple=True)
        part = torch.arange(words.shape[2], device=token.device) == token[:, None]
        relevance[:, example, token] = without(example, part).mT
        exact |= chosen


def _errors(
    wrong: Tensor, flow: Tensor, exact: Tensor, words: Tensor, *, next_token: bool
) -> Tensor:
    """Estimates errors, (target, batch, token): 0 if exact; infinite before a flow is compared.

    wrong: exact relevance less the guess, 0 where it is unknown
    """
    if next_token:
        flow = flow + MEANS * flow.sum(dim=2, keepdim=True) / words.sum(dim=2, keepdim=True)
    compared = exact & words  # tokens left out for another target's row show nothing of this one
    known = (flow * compared).norm(dim=2, keepdim=True)
    error: Tensor = SURE * (wrong * compared).norm(dim=2, keepdim=True) / known * flow
    return error.where(known > 0, torch.inf).where(words & ~exact, 0)


def _mark_largest(size: Tensor, among: Tensor, count: Tensor) -> Tensor:
    """Marks the first ``count`` (batch,) tokens of ``among``, (batch, token), the largest first."""
    order = size.masked_fill(~among, -1).argsort(dim=1, descending=True, stable=True)
    return (order.argsort(dim=1) < count[:, None]) & among
