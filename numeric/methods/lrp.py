"""Layer-wise Relevance Propagation with any Composite, in one forward and one backward pass."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.entry import of_tokens
from lrp_axioms.numeric.methods import positions as position_shares
from lrp_axioms.numeric.methods.checkpointing import Checkpointed, leaves
from lrp_axioms.numeric.methods.image_relevance import grid, of_images
from lrp_axioms.numeric.methods.inside import Inside
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets.readout import Found, Readout
from lrp_axioms.numeric.warning import warn_caller

SHARES = ("embedding", "word")


def lrp(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    block: Propagation | None = None,
    *,
    composite: Composite,
    epsilon: float = 0.0,
    share: str = "embedding",
    positions: str | None = None,
    at: str | Iterable[str] | None = None,
    channels: bool = False,
    checkpoint: bool = False,
) -> Iterator[Found]:
    """Computes relevance of each token's embedding by ``composite`` (Eqs. 1, 3, 4, 5).

    ``share`` is "embedding" (word + position + type, before the first LayerNorm) or "word"
    (the word embedding's share of that sum by the epsilon rule).  Absorbed: biases, LayerNorm's
    beta and epsilon, and the part that the softmax rule does not conserve.
    With ``positions="signed"`` the details hold the shares of "word", "position" and "token type",
    (batch, token), and of "rotary", (batch, layer, token), which keeps half of the relevance of
    rotated queries and keys; a token's relevance is the sum of them.  "absolute" sums the shares
    of position by absolute value, and "excess" (batch) is the difference.  Models with neither
    raise ValueError.  None: rotation is a fixed linear map.
    ``at`` is a path of ``model.named_modules()``, or several; ``*`` in it stands for any one
    name.  ``details["inside"]`` holds the relevance at the output of each of these modules, in
    a tuple at its first tensor: summed over channels, the last axis or the channel axis of an
    image's map (batch, channel, height, width), unless ``channels`` is True.  A module that is
    called several times is there as path#0, path#1, ...
    ``checkpoint=True`` runs the layers again in the backward pass, one by one, and keeps nothing
    but their inputs meanwhile: long texts take much less memory, about a third more time.
    Encoders with a decoder look every token up twice, and it gets the sum of both; the decoder's
    start is no token of the text, and its relevance is in the residual.
    ``block`` has the rules of ``composite`` as another method changed them.
    Plain gradient x input has no relevance at the whole sum, because a LayerNorm follows, whose
    output does not change when its input is scaled; its default share is therefore "word".
    """
    check_share(share)
    if channels and at is None:
        raise ValueError("channels=True splits up what `at` asks for; pass the path of a module")
    position_shares.check(positions)
    if positions is not None and batch.mixed:
        raise ValueError(f"positions={positions!r} is of texts without an image: leave it out")
    turns = positions is not None
    model = packed.unpack(model)
    inside = Inside(model, at)
    rules: Propagation
    if checkpoint:
        rules = _checkpointed(model, composite, epsilon, at=at, positions=positions)
    else:
        rules = block or Propagation(inside.model, composite, eps=epsilon, turns=turns)
    with torch.enable_grad():
        with rules:
            rows = readout.run(rules.model, batch.arguments(), settle=rules.end)
        targets = readout.choose(rows).targets
        if turns and batch.facts.two and rules.turned.by_layer:
            raise ValueError(
                f"positions={positions!r}: {type(model).__name__} rotates queries and keys of two "
                "texts, and both stacks of layers have the same numbers; leave it out"
            )
        entries = rules.entries.found
        embeddings = [entry.embedding for entry in entries]
        check_gradient(model, rows.logits)
        for entry in entries:
            check_gradient(model, entry.embedding, "pixels" if entry.ids is None else "words")
        check_leaves(model, rules, [rows.logits])
        asked = [*embeddings, *inside.tensors(), *rules.turned.tensors()]
        logits = [each.of(rows) for each in targets]
        sums = [logit.sum() for logit in logits]
    by_token: Callable[[list[Tensor]], Tensor] = lambda of_entries: of_tokens(
        entries, of_entries, batch.texts
    )
    optional = turns or bool(inside.paths) or batch.mixed  # held softmaxes keep from patches
    image = None if batch.pixel_values is None else batch.pixel_values.shape[2:]
    apart = turns or share == "word"
    each_in = [entry.parts() if apart else entry.whole() for entry in entries]
    parts = {name: by_token([part[name] for part in each_in]) for name in each_in[0]}
    for each, logit, end in zip(targets, logits, sums, strict=True):
        more = end is not sums[-1] or batch.mixed
        found = iter(torch.autograd.grad(end, asked, allow_unused=optional, retain_graph=more))
        both = [(next(found), entry.embedding) for entry in entries]
        cs = [torch.zeros_like(x) if c is None else c for c, x in both]
        c = by_token(cs)
        details: dict[str, Any] = {
            "inside": inside.relevance(found, channels=channels, image=image)
        }
        if batch.mixed:
            of_pixels = [c for (c, _), x in zip(both, entries, strict=True) if x.ids is None]
            if of_pixels and all(c is None for c in of_pixels):
                warn_caller(
                    f"no relevance reaches the pixels of {type(model).__name__}, and its patches "
                    "have 0: some module detaches them, or a rule holds what depends on them"
                )
            own = [part[share] for part in each_in]
            details["patches"] = of_images(entries, own, cs, logit)
        details |= {} if image is None else grid(entries, len(logit))
        if positions is not None:
            of_rotary = rules.turned.relevance(found)
            shares = position_shares.shares(parts, c, of_rotary, batch.present, positions)
            position_shares.check_found(model, shares)
            details |= shares
            every = share == "embedding"
            relevance = position_shares.of_tokens(shares) if every else shares["word"]
        else:
            relevance = (parts[share] * c).sum(dim=-1)
        yield Found(relevance, each.target, logit.detach(), details)


def _checkpointed(
    model: PreTrainedModel, composite: Composite, epsilon: float, **others: object
) -> Checkpointed:
    given = [f"{name}={value!r}" for name, value in others.items() if value is not None]
    if given:
        raise ValueError(
            f"checkpoint=True keeps nothing of the layers, and cannot give {', '.join(given)}: "
            "leave one of them out"
        )
    return Checkpointed(model, composite, eps=epsilon)


def check_gradient(model: PreTrainedModel, x: Tensor, on: str = "words") -> None:
    """Raises ValueError for logits, or an embedding of ``on``, that have no gradient."""
    if not x.requires_grad:
        raise ValueError(
            f"the logits of {type(model).__name__} do not depend on the {on} in any way that "
            "torch shows: some module detaches its input, or leaves torch; explain a model "
            "that does not"
        )


def check_leaves(
    model: PreTrainedModel, rules: Propagation, ends: Sequence[Tensor], cuts: Sequence[Tensor] = ()
) -> None:
    """Raises ValueError for further inputs, which would take a share of the relevance by rules.

    ``cuts`` are further leaves of the graph of ``ends``.
    """
    own = {id(x) for x in (*(entry.leaf for entry in rules.entries.all), *cuts)}
    found = leaves(ends) if rules.book.mixed else ()
    if others := [tuple(x.shape) for x in found if id(x) not in own]:
        raise ValueError(
            f"{type(model).__name__} computes with {len(others)} tensors that need gradients, of "
            f"shapes {', '.join(map(str, others[:5]))}: they would take a share of the relevance; "
            "make them parameters of the model (torch.nn.Parameter), or detach them"
        )


def check_share(share: object) -> None:
    if share not in SHARES:
        raise ValueError(f"share={share!r}: pass one of {', '.join(SHARES)}")
