"""Many mixes of attention rules by layer, such as all of Table A3, from one forward pass.

In the limit epsilon -> 0 the attention step of every composite is a factor on the cotangents of
Q, K and V (``attention.shares``).  So composites that agree elsewhere share one forward
pass, whose graph is cut at each layer's input and at its Q, K and V.  Backwards, composites with
equal factors so far share one cotangent; where their factors differ, they still share the
way down to Q, K and V.

Cotangents go down one at a time and depth first, so that few wait: with two choices per layer,
one per layer, however many mixes there are.  Stacking them (``is_grads_batched``) was measured on
CPU and is slower; on a GPU it was not measured.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.layer_factors import Factors, groups, projections, without_attention_step
from lrp_axioms.numeric.methods import amplification
from lrp_axioms.numeric.methods.lrp import check_leaves, check_share
from lrp_axioms.numeric.methods.options import composite_of
from lrp_axioms.numeric.models import families, patches
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.checks import guarded_run
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.places import LAYER
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.chosen import Rows
from lrp_axioms.numeric.targets.readout import Readout


@dataclass(frozen=True, eq=False)  # tensors have no one truth value
class Sweep:
    """Relevance of every token under every composite; all in logits.

    relevance: (composite, batch, token), 0 at padding
    target: the explained class as in ``Attribution``, one for all composites
    logit: (composite, batch), rounded as the composite's rules round
    residual: (composite, batch) logit minus the sum of relevance: absorbed or lost relevance
    """

    relevance: Tensor
    target: Tensor
    logit: Tensor
    residual: Tensor


@dataclass(frozen=True, eq=False)
class Cut:
    """A place where the graph is cut."""

    source: Tensor  # the tensor that arrived
    leaf: Tensor  # the leaf that went on


def sweep(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    methods: Sequence[str | Composite],
    target: Label | Target = None,
    *,
    share: str = "embedding",
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Sweep:
    """Returns relevance by each of ``methods``, all by rules, for epsilon -> 0 (Eqs. 1, 3, 4, 5).

    Equal to ``attribute(model, inputs, method, target, share=share)`` for each, up to rounding;
    methods that differ only in the attention step share all work until they part.
    ``inputs`` and ``target`` are described in ``attribute``, with the place where relevance is
    read and the operations that absorb it.
    Raises the errors of ``attribute``, and ValueError for no composite and for models that run
    one layer several times, such as ALBERT.
    """
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise ValueError(f'methods={methods!r}: pass a list, such as ["attnlrp", "cp-lrp"]')
    composites = [composite_of(method, None)[1] for method in methods]
    check_share(share)
    if not composites:
        raise ValueError('methods is empty; pass at least one, such as ["attnlrp", "cp-lrp"]')
    with outside(), torch.inference_mode(mode=False):
        batch = prepare(model, inputs, targets=[target]).of_text()
        with guarded_run(model, batch):
            relevance, readout, logit = _relevance(
                model, batch, composites, target, tokenizer, share
            )
    wrong = (~relevance.isfinite()).any(dim=2).nonzero().tolist()
    if wrong:
        places = "; ".join(f"example {n} by {composites[k].name!r}" for k, n in wrong)
        raise ValueError(
            f"non-finite relevance in {places}: a denominator is zero or the model's "
            f"{model.dtype} overflows; call attribute() with epsilon=1e-6, or load the model in "
            "float32"
        )
    relevance = relevance * (batch.attention_mask == 1)
    off = torch.autocast(batch.device.type, enabled=False)
    with outside(), torch.inference_mode(mode=False), off:
        each = zip(composites, relevance, logit, strict=True)
        amplification.warn(model, batch, readout, each, share=share)
    (chosen,) = readout.targets
    return Sweep(relevance, chosen.target, logit, logit - relevance.sum(dim=2))


def _relevance(
    model: PreTrainedModel,
    batch: Batch,
    composites: Sequence[Composite],
    target: Label | Target,
    tokenizer: PreTrainedTokenizerBase | None,
    share: str,
) -> tuple[Tensor, Readout, Tensor]:
    layers = _layers(model)
    readout = Readout.of(model, batch, [target], tokenizer=tokenizer)
    rules, cuts, rows = _forward(model, batch, layers, composites[0], readout)
    readout = readout.choose(rows)
    (chosen,) = readout.targets
    found: dict[int, tuple[Tensor, Tensor]] = {}
    parts = groups(model, rules.book.recorded, layers, composites)
    for n, (composite, factors) in enumerate(parts):
        if n:
            rules, cuts, rows = _forward(model, batch, layers, composite, readout)
        logit = chosen.of(rows)
        entry = rules.entries.only
        embedding = entry.embedding
        part = (entry.parts() if share == "word" else entry.whole())[share]
        for numbers, end, c in _descend(cuts, logit, torch.ones_like(logit), factors):
            (c,) = torch.autograd.grad(end, embedding, c, retain_graph=True)
            found |= dict.fromkeys(numbers, ((part * c).sum(dim=-1), logit.detach()))
    relevances, logits = zip(*(found[n] for n in range(len(composites))), strict=True)
    return torch.stack(relevances), readout, torch.stack(logits)


def _forward(
    model: PreTrainedModel,
    batch: Batch,
    layers: Sequence[tuple[str, str]],
    composite: Composite,
    readout: Readout,
) -> tuple[Propagation, list[dict[str, Cut]], Rows]:
    """Runs one forward pass, cut at ``layers``; attention steps keep the plain gradient."""
    twin = patches.twin(packed.unpack(model))
    applied = Propagation(twin, without_attention_step(composite))
    # Hooks that stayed would hold the twin, and the twin the hooks, with the graph between them.
    once = readout.one_draw(twin, batch)
    with once, ExitStack() as hooks, applied as rules, torch.enable_grad():
        rules.book.asks = True  # every composite needs to know which operations there are
        cuts = [_cut(rules, twin, hooks, *paths) for paths in layers]
        rows = readout.run(twin, batch.arguments(), settle=rules.end)
    every = [cut for layer in cuts for cut in layer.values() if cut]
    ends = [rows.logits, *(cut.source for cut in every)]
    check_leaves(model, rules, ends, [cut.leaf for cut in every])
    begun = [x["input"].source.grad_fn for x in cuts]
    numbers = [x._sequence_nr() for x in begun if x is not None]
    if numbers != sorted(numbers):
        raise ValueError(
            f"layers of {type(model).__name__} run in another order than their numbers; call "
            "attribute() for each composite"
        )
    return rules, cuts, rows


def _descend(
    cuts: list[dict[str, Cut]], end: Tensor, c: Tensor, factors: Mapping[int, Sequence[Factors]]
) -> Iterator[tuple[Iterable[int], Tensor, Tensor]]:
    """Yields (numbers of composites, input of the first layer, its cotangent), depth first.

    ``end`` is the output of the layers ``cuts`` and ``c`` its cotangent; ``factors`` holds, by
    number of a composite and by layer, a factor for each part of each projection.
    """
    if not cuts:
        yield factors.keys(), end, c
        return
    *below, layer = cuts
    entrance, *cut = layer.values()
    parting: dict[Factors, dict[int, Sequence[Factors]]] = {}
    for number, by_layer in factors.items():
        parting.setdefault(by_layer[len(below)], {})[number] = by_layer
    needed = [n for n in range(len(cut)) if any(any(f[n]) for f in parting)]
    leaves = [entrance.leaf, *(cut[n].leaf for n in needed)]
    beside, *into = torch.autograd.grad(end, leaves, c, retain_graph=True)
    ready = []
    for factor, part in parting.items():
        passing = {n: _weigh(x, factor[n]) for n, x in zip(needed, into, strict=True)}
        passing = {n: x for n, x in passing.items() if any(factor[n])}
        sources = [cut[n].source for n in passing]
        (through,) = torch.autograd.grad(
            sources, entrance.leaf, list(passing.values()), retain_graph=True
        )
        ready.append((beside + through, part))
    del c, beside, into, passing, through  # waiting cotangents are in ``ready``
    while ready:
        yield from _descend(below, entrance.source, *ready.pop())


def _weigh(c: Tensor, factors: Sequence[float]) -> Tensor:
    if len(factors) == 1:
        return c * factors[0]
    parts = zip(c.chunk(len(factors), dim=-1), factors, strict=True)
    return torch.cat([x * factor for x, factor in parts], dim=-1)


def _cut(
    rules: Propagation, model: nn.Module, hooks: ExitStack, layer: str, attention: str
) -> dict[str, Cut]:
    """Returns cuts that the forward pass fills: at the layer's input, then at its projections."""
    module = model.get_submodule(attention)
    places: dict[str, Any] = dict.fromkeys(["input", *projections(module)])  # later a Cut each

    def cut(name: str, x: Tensor) -> Tensor:
        if places[name] is not None:
            raise _uncut_error(model, [attention])
        x = rules.book.settle(x)
        leaf = x.detach().requires_grad_()
        places[name] = Cut(x, leaf)
        with torch._C.DisableTorchFunction():  # the rules treat a leaf as a constant
            return leaf.view_as(leaf)

    hooks.enter_context(patches.change_input(model.get_submodule(layer), partial(cut, "input")))
    for name in projections(module):
        hooks.enter_context(patches.change_output(getattr(module, name), partial(cut, name)))
    return places


def _layers(model: nn.Module) -> list[tuple[str, str]]:
    """Returns the paths of every layer and of its attention module, in the order of execution."""
    found: dict[int, tuple[str, str]] = {}
    seen, loose = set(), []
    for path, module in model.named_modules(remove_duplicate=False):
        if families.projections(module):
            place = LAYER.search(path)
            if place is None or module in seen:
                loose.append(path)
            else:
                found[int(place[1])] = path[: place.end(1)], path
            seen.add(module)
    if loose or not found:
        raise _uncut_error(model, loose)
    return [found[n] for n in sorted(found)]


def _uncut_error(model: nn.Module, loose: Sequence[str]) -> ValueError:
    return ValueError(
        f"{type(model).__name__} cannot be cut into layers of which each runs once: "
        + (f"see its attention at {', '.join(loose)}" if loose else "it has no attention")
        + "; call attribute() for each composite"
    )
