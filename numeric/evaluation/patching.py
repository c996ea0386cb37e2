"""Activation patching, and its effects as predicted by coefficients of one backward pass.

Patching replaces a module's output at one token of the clean run by its output there in a
corrupted run; its effect is the drop of the explained number.  The coefficients of a composite are
R/x, relevance per unit of activation, which are the gradient where no rule acts; times the
change of the activation they predict every effect from one backward pass.  A norm's input in both
runs decides which coefficients of the norm are closer (theorem 57).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.axioms.composites import GRADIENT_X_INPUT, Composite
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.methods.options import composite_of
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.checks import guarded_run
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.patches import twin
from lrp_axioms.numeric.models.places import numbered_layers
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.readout import Readout

RESIDUAL, ATTENTION, MLP = PLACES = ("residual stream", "attention output", "MLP output")
PARTS = (
    ("attention.output.dense", "output.dense"),  # BERT and models built like it
    ("self_attn", "mlp"),  # LLaMA, Qwen, Gemma, Phi
    ("self_attn", "fc2"),  # OPT
    ("attn", "mlp"),  # GPT-2, ModernBERT
    ("attention", "ffn.lin2"),  # DistilBERT
    ("attention", "mlp"),  # GPT-NeoX
)
"""The modules of a layer that write attention and MLP outputs to the residual stream."""
ByPlace: TypeAlias = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Patched:
    """One pair of runs; every array is (layer, token), by kind of place, in float64.

    effect: the explained number of the clean run less the number of the patched run
    predicted: by composite, its coefficients times clean less corrupted activations
    keep: bool, where both runs differ and the explained number depends on the place
    length: of the patched input of the next norm that reads the place, over its clean length
    cosine: between the patched and the clean input of this norm; both are NaN without a norm
    """

    effect: ByPlace
    predicted: dict[str, ByPlace]
    keep: ByPlace
    length: ByPlace
    cosine: ByPlace

    def held_is_closer(self) -> ByPlace:
        """Tells where holding the deviation predicts the next norm better (theorem 57)."""
        found: ByPlace = {}
        for place, cosine in self.cosine.items():
            u = 1 + abs(self.length[place] - 1)
            found[place] = (1 - u * cosine) * (1 - (2 - u) * cosine) > 0
        return found


def places(model: nn.Module) -> dict[str, list[str]]:
    """Returns the paths of all layers, of their attention outputs, and of their MLP outputs.

    Raises ValueError for a model whose layers have none of ``PARTS``.
    """
    layers = numbered_layers(model)
    known = {path for path, _ in model.named_modules()}
    for attention, mlp in PARTS:
        paths = [[f"{layer}.{part}" for layer in layers] for part in (attention, mlp)]
        if known.issuperset(paths[0] + paths[1]):
            return dict(zip(PLACES, [layers, *paths], strict=True))
    listed = ", ".join(f"{attention} and {mlp}" for attention, mlp in PARTS)
    raise ValueError(
        f"{type(model).__name__}: its layers, such as {layers[0]}, have none of {listed}, so that "
        "it is not known where attention and MLP write; pass paths, such as "
        "paths={'residual stream': [...]}"
    )


def patching(
    model: PreTrainedModel,
    clean: Mapping[str, Tensor],
    corrupted: Mapping[str, Tensor] | None,
    methods: Mapping[str, str | Composite],
    *,
    target: Label | Target = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    paths: Mapping[str, Sequence[str]] | None = None,
    size: float = 1.0,
) -> Patched:
    """Measures the effect of patching every place and token of one text, and predicts it.

    ``clean`` and ``corrupted`` are batches of one text with equal numbers of tokens; without
    ``corrupted`` (None) zeros are patched in, and the prediction is the relevance itself.
    ``target`` and ``tokenizer`` are as in ``attribute``; the clean run is read.  ``paths``: by kind
    of place, one module per layer, by default ``places(model)``.  ``size``: the part of the change
    that is made.
    Each of ``methods``, all by rules, takes one forward pass, and each place one forward pass of as
    many copies as there are tokens.
    Raises ValueError for inputs that ``attribute`` refuses, for more than one text, for texts of
    different lengths, and for modules that return no (token, channel) or are called several times.
    """
    composites = {name: composite_of(method, None)[1] for name, method in methods.items()}
    paths = places(model) if paths is None else paths
    flat = [path for of_place in paths.values() for path in of_place]
    with outside(), torch.inference_mode(mode=False):
        batch = prepare(model, clean, targets=[target]).of_text()
        other = None if corrupted is None else prepare(model, corrupted)
        _check(batch, other)
        with guarded_run(model, batch):
            readout = Readout.of(model, batch, [target], tokenizer=tokenizer)
            nothing = torch.zeros((), device=batch.device)
            text, x, norms = _Text(model, batch, readout, nothing).seen(flat)
            there = text.seen(flat, other)[1] if other else dict.fromkeys(flat, Output(nothing, 0))
            change = {path: size * (x[path].value - there[path].value) for path in flat}
            slopes = {name: text.coefficients(flat, rules) for name, rules in composites.items()}
            plain = text.coefficients(flat, GRADIENT_X_INPUT)
            keep = {path: change[path].any(dim=1) & plain[path].any(dim=1) for path in flat}
            found = {p: text.patched(p, x[p], change[p], keep[p], norms) for p in flat}

    def by_place(values: Callable[[str], Tensor]) -> ByPlace:
        return {
            place: torch.stack([values(path).cpu() for path in of_place]).double().numpy()
            for place, of_place in paths.items()
        }

    predict: Callable[[dict[str, Tensor]], ByPlace] = lambda c: by_place(
        lambda path: (c[path].cpu().double() * change[path].cpu()).sum(dim=1)
    )
    return Patched(
        effect=by_place(lambda path: found[path][0]),
        predicted={name: predict(c) for name, c in slopes.items()},
        keep={place: x.astype(bool) for place, x in by_place(keep.__getitem__).items()},
        length=by_place(lambda path: found[path][1]),
        cosine=by_place(lambda path: found[path][2]),
    )


def _check(batch: Batch, other: Batch | None) -> None:
    shapes = [tuple(x.ids.shape) for x in (batch, other) if x is not None]
    if shapes[0][0] != 1 or len({*shapes}) > 1:
        raise ValueError(
            f"input_ids of shapes {' and '.join(map(str, shapes))}: pass one clean text, and one "
            "corrupted text of as many tokens"
        )
    if any(x.decoder_input_ids is not None for x in (batch, other) if x is not None):
        raise ValueError("inputs has decoder_input_ids: one text is patched; leave it out")
    if not all(x.attention_mask.all() for x in (batch, other) if x is not None):
        raise ValueError("the texts have padding, at which nothing can be patched; leave it out")


class Output(NamedTuple):
    """A module's output in the clean run, (token, channel), and how many norms ran before."""

    value: Tensor
    norms: int


class Norm(NamedTuple):
    """A call of a norm in the clean run; ``given`` is its input, less the mean if it centres."""

    path: str
    centres: bool
    given: Tensor


@dataclass(frozen=True, eq=False)
class _Text:
    """Runs twins of a model, which have hooks of their own, on one text."""

    model: PreTrainedModel
    batch: Batch
    readout: Readout
    number: Tensor  # the explained number

    def seen(
        self, paths: Sequence[str], batch: Batch | None = None
    ) -> tuple["_Text", dict[str, Output], list[Norm]]:
        """Returns this with its number and labels, all module outputs, and all calls of norms."""
        model, outputs, norms = twin(self.model), dict[str, Output](), list[Norm]()

        def look(path: str, _module: nn.Module, _inputs: Any, output: Any) -> None:
            if path in outputs:
                raise ValueError(
                    f"{path} is called several times, in layers that share it; no call "
                    "of it can be patched alone; pass other paths"
                )
            outputs[path] = Output(self._by_token(path, output)[0], len(norms))

        def meet(path: str, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            centres = _centres(module, inputs)
            given = _centred(inputs[0], centres).reshape(self.batch.ids.shape[1], -1)
            norms.append(Norm(path, centres, given))

        for path, module in model.named_modules():
            if path in paths:
                module.register_forward_hook(partial(look, path))
            if "Norm" in type(module).__name__:
                module.register_forward_pre_hook(partial(meet, path))
        with torch.no_grad():
            rows = self.readout.run(model, (batch or self.batch).arguments())
        readout = self.readout.choose(rows)
        return replace(self, readout=readout, number=readout.targets[0].of(rows)[0]), outputs, norms

    def coefficients(self, paths: Sequence[str], composite: Composite) -> dict[str, Tensor]:
        """Returns relevance per unit of the modules' outputs: (token, channel)."""
        model, outputs = twin(self.model), dict[str, Tensor]()

        def look(path: str, _module: nn.Module, _inputs: Any, output: Any) -> None:
            outputs[path] = _first(output)

        for path in paths:
            model.get_submodule(path).register_forward_hook(partial(look, path))
        with torch.enable_grad(), Propagation(model, composite) as rules:
            rows = self.readout.run(model, self.batch.arguments(), settle=rules.end)
            (chosen,) = self.readout.targets
            xs = [outputs[path] for path in paths]
            found = torch.autograd.grad(chosen.of(rows)[0], xs, materialize_grads=True)
        return {path: self._by_token(path, c)[0] for path, c in zip(paths, found, strict=True)}

    def patched(
        self, path: str, out: Output, change: Tensor, keep: Tensor, norms: Sequence[Norm]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the drop of the explained number at each kept token, 0 elsewhere, and length and
        cosine of the input of the next norm that reads it, NaN elsewhere.  All are (token,)."""
        by = out.value - change
        tokens = keep.nonzero()[:, 0]
        copies = torch.arange(len(tokens), device=by.device)
        effect = self.number.new_zeros(len(by))  # wider than a half-precision model
        length, cosine = by.new_full((2, len(by)), torch.nan)
        if not len(tokens):
            return effect, length, cosine
        model, met = twin(self.model), list[Tensor]()

        def patch(_module: nn.Module, _inputs: Any, output: Any) -> Any:
            x = self._by_token(path, output, len(tokens)).clone()
            x[copies, tokens] = by[tokens]
            x = x.reshape(_first(output).shape)
            return x if isinstance(output, Tensor) else (x, *output[1:])

        def meet(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            x = inputs[0].reshape(len(tokens), len(by), -1, inputs[0].shape[-1])[copies, tokens]
            met.append(_centred(x, norms[len(met)].centres).flatten(1))

        model.get_submodule(path).register_forward_hook(patch)
        for read in {each.path for each in norms}:
            model.get_submodule(read).register_forward_pre_hook(meet)
        given = self.batch.arguments().items()
        arguments = {key: x.expand(len(tokens), *x.shape[1:]) for key, x in given}
        (chosen,), example = self.readout.targets, torch.zeros_like(tokens)
        with torch.no_grad():
            rows = self.readout.run(model, arguments, example)
        effect[tokens] = self.number - chosen.of(rows, example)
        rounding = torch.finfo(by.dtype).eps ** 0.75  # between a text and its copies
        for norm, after in zip(norms[out.norms :], met[out.norms :], strict=True):
            before = norm.given[tokens]
            if (after - before).abs().max() > rounding * before.abs().max():
                length[tokens] = after.norm(dim=1) / before.norm(dim=1)
                cosine[tokens] = nn.functional.cosine_similarity(after, before)
                break
        return effect, length, cosine

    def _by_token(self, path: str, output: Any, copies: int = 1) -> Tensor:
        """Reshapes a module's output to (copy, token, channel); ValueError for other axes."""
        x, tokens = _first(output), self.batch.ids.shape[1]
        if tuple(x.shape[:-1]) not in ((copies, tokens), (copies * tokens,)):
            raise ValueError(
                f"{path} returns a tensor of shape {tuple(x.shape)}, which is not (batch, token, "
                "channel): no token of it can be patched; pass other paths"
            )
        return x.reshape(copies, tokens, -1)


def _first(output: Any) -> Tensor:
    found: Tensor = output if isinstance(output, Tensor) else output[0]
    return found


def _centres(norm: nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    """Decides whether a norm subtracts the mean: then a shift of its input changes nothing."""
    x, *others = inputs
    found: Tensor = norm.forward(x, *others)
    shifted = norm.forward(x + x.abs().amax(dim=-1, keepdim=True), *others)
    return bool((shifted - found).abs().max() <= 0.01 * found.abs().max())


def _centred(x: Tensor, centres: bool) -> Tensor:  # noqa: FBT001
    """Returns ``x``, less its mean if a norm ``centres`` it."""
    return x - x.mean(dim=-1, keepdim=True) if centres else x
