"""Applies a Composite to a twin of a stock model, for as long as a ``with`` block lasts.

Rules sit on the modules of the twin as hooks and instance attributes.  The model itself is never
changed, nor is any other.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from numbers import Real

import torch
from torch import Tensor, nn

from axioms import kinds
from axioms.composites import Composite
from numeric.fast import attention_step, families, patches, rotary, rules


@dataclass
class Tap:
    """The model to run, and the embeddings of its last forward pass: (batch, token, channel)."""

    model: nn.Module  # the twin, which carries the rules
    embedding: Tensor | None = None  # word + position + type, a leaf of the autograd graph
    whole: Tensor | None = None  # the same less the share of the stabiliser, float32 or wider
    word: Tensor | None = None  # what words contribute to it, in float32 or wider
    token_type: Tensor | None = None  # what token types contribute, where the model adds them
    turned: dict[int, list] = field(default_factory=dict)  # by layer, as numeric.fast.rotary says
    entered: list[Tensor] = field(default_factory=list)  # words, then types, until they are added

    def parts(self) -> dict[str, Tensor]:
        """What adds up to the embedding; position is all that is neither word nor token type."""
        known = {"word": self.word}
        if self.token_type is not None:
            known["token type"] = self.token_type
        return known | {"position": self.whole - sum(known.values())}

    def clear(self):
        self.embedding = self.whole = self.word = self.token_type = None
        self.entered.clear()


@contextmanager
def applied(
    model: nn.Module, composite: Composite, *, eps: float = 0.0, rotary_keeps_half: bool = False
):
    """The propagation rules of ``composite`` on a twin of ``model``, and a Tap on its embeddings.

    Inside the block, logits of ``tap.model`` are the stock model's, and the gradient of a logit
    with respect to ``tap.embedding`` is ``relevance / embedding``.  With ``eps == 0`` attention
    runs on whatever kernel the model is set to; a finite ``eps`` acts on the scores and therefore
    spells attention out.  With ``rotary_keeps_half`` rotary position, read from ``tap.turned``,
    keeps half of the relevance of queries and keys; without it rotation is a fixed linear map.
    The logits of RMSNorm models in float64 are more exact than the stock model's, which pass
    through float32.
    A tap is for one thread; other threads may have scopes of their own on the same model.
    Raises UnassignedOperation (all modules without a rule) and ValueError (bad eps, or a finite one
    where some operation is out of reach; composite names a layer or module that the model lacks,
    or gives one shared module two rules).
    """
    tap = Tap(patches.twin(model))
    places = families.places(tap.model)
    modules: dict[nn.Module, str] = {}  # the first path of each, the root first
    for path, module in places:
        modules.setdefault(module, path)
    sites = families.sites(places)
    plan = plan_patches(model, sites, composite, eps=eps, at_projections=rotary_keeps_half)
    plan += _tap(modules, tap, composite, eps)
    if rotary_keeps_half:  # last, so that it reads what rotation receives
        plan += rotary.rotary_patches(sites, composite, tap.turned, attention_step.to_scores)
    attention_step.register()
    for patch in plan:
        patch()
    if eps:
        patches.attention_implementation(modules, attention_step.EXPLICIT)
    try:
        yield tap
    finally:
        for module in modules:  # rules refer to the modules they are on, and keep the graph
            vars(module).clear()


def plan_patches(model, sites, composite: Composite, *, eps, at_projections: bool) -> list:
    """The patches that ``composite`` needs, decided before any of them is made.

    ``at_projections``: the factors of attention act before rotation, which then reads cotangents
    that do not have them yet, and a query that is cut off needs no gradient.
    """
    check_stabiliser(eps, model.dtype)
    if eps:
        _check_reach(model, sites, eps)
    chosen = assigned(sites, composite)
    plan = []
    for module, table in chosen.items():
        for at in table.items():
            plan += PATCHES[at](module, eps)
        if vars(module).get("inplace"):  # rules look at an input again, after the output
            plan.append(partial(patches.set_attribute, module, "inplace", value=False))
    attend = partial(attention_step.in_the_limit, configs={})
    if eps:
        attend = partial(attention_step.spelled_out, eps=eps)
    elif at_projections:
        attend = attention_step.at_projections
    # Last, because hooks run in this order, and a linear map acts before its output is split.
    for module, table in chosen.items():
        if type(module) in families.FUNCTIONAL:
            plan += FUNCTIONS[table[kinds.ACTIVATION]](module)
        if type(module) in families.ATTENTION:
            plan += attend(module, table)
    return plan


def assigned(sites: list[families.Site], composite: Composite) -> dict[nn.Module, dict[str, str]]:
    """Module -> kind -> rule, or the errors of ``applied`` for a composite that does not fit."""
    check_overrides(composite, [site.operation for site in sites])
    rules_of_sites = composite.assign((site.operation for site in sites), known=PATCHES)
    chosen: dict[nn.Module, dict[str, str]] = {}
    for site, rule in zip(sites, rules_of_sites, strict=True):
        kind, path = site.operation.kind, site.operation.module
        if chosen.setdefault(site.module, {}).setdefault(kind, rule) != rule:
            raise ValueError(
                f"composite {composite.name!r} has the rule {rule!r} for {kind} at {path}, and "
                f"{chosen[site.module][kind]!r} at another place of the same module; give both "
                "places one rule, or the model two modules"
            )
    return chosen


def check_stabiliser(eps, dtype: torch.dtype = torch.float64) -> None:
    """Raises ValueError unless ``eps`` is 0 or a number that subnormal ones cannot rival."""
    if isinstance(eps, bool) or not isinstance(eps, Real) or not 0 <= eps < float("inf"):
        raise ValueError(
            f"eps={eps!r} ({type(eps).__name__}): the stabiliser must be finite and >= 0; "
            "pass eps=0 for the limit"
        )
    number = torch.finfo(torch.promote_types(dtype, torch.float32))  # as in rules.wide
    if 0 < eps < (least := number.tiny / number.eps):
        raise ValueError(
            f"eps={eps!r}: in {number.dtype} the stabiliser must be 0 or at least {least:.0e}, "
            "because processors may take numbers near it for 0; pass eps=0 for the limit, or more"
        )


def check_overrides(composite: Composite, operations) -> None:
    """Raises ValueError for layers and modules of ``composite`` in which there is no operation."""
    layers = {op.layer for op in operations} - {None}
    paths = {op.module for op in operations}
    unknown = [f"layer {layer}" for layer in composite.layers if layer not in layers]
    unknown += [f"module {path!r}" for path in composite.modules if path not in paths]
    if unknown:
        raise ValueError(
            f"composite {composite.name!r} overrides {', '.join(unknown)}, which the model does "
            "not have; "
            + (f"its layers are 0 to {max(layers)}" if layers else "its layers have no numbers")
        )


def _check_reach(model, sites, eps):
    """A finite stabiliser acts on every sum, so each must be the input of some module."""
    beyond = [site.operation.module for site in sites if type(site.module) in families.STREAMS]
    if beyond:
        raise ValueError(
            f"eps={eps!r}: {type(model).__name__} adds to its stream in {len(beyond)} modules, "
            f"first {beyond[0]}, where no hook can stabilise the sum; pass eps=0 for the limit"
        )


def _nothing(*_):
    return []


def _linear(module, eps, bias=None):
    if eps == 0 and bias is None:
        return []  # in the limit the rule is the plain gradient
    return [partial(patches.change_output, module, partial(rules.epsilon, eps=eps, bias=bias))]


def _add(module, eps):
    if eps == 0 or type(module) in families.EMBEDDINGS:  # relevance is read at that sum
        return []
    stabilise = partial(rules.epsilon, eps=eps)
    receivers = families.RESIDUAL_SUMS[type(module)]
    return [partial(patches.change_input, getattr(module, name), stabilise) for name in receivers]


def _product(module, _eps):
    receiver = getattr(module, families.GATED[type(module)])
    return [partial(patches.change_input, receiver, partial(rules.scale, factor=0.5))]


def _replaced(module, forward, *arguments, **options):
    forward = partial(forward, *arguments, **options)
    return [partial(patches.set_attribute, module, "forward", forward)]


def _identity(module, slope_at_zero):
    return _replaced(module, rules.identity, module.forward, slope_at_zero=slope_at_zero)


def _activation(module, _eps):
    if type(module) in families.FUNCTIONAL:
        return []  # the function is no module; see FUNCTIONS
    return _identity(module, _slope_at_zero_of_class(type(module)))


PATCHES = {
    (kinds.LINEAR, kinds.EPSILON): _linear,
    (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS): lambda m, eps: _linear(m, eps, m.bias),
    (kinds.LINEAR, kinds.GRADIENT): _nothing,
    (kinds.ADD, kinds.EPSILON): _add,
    (kinds.ADD, kinds.GRADIENT): _nothing,
    (kinds.PRODUCT, kinds.EQUAL_SPLIT): _product,
    (kinds.PRODUCT, kinds.GRADIENT): _nothing,
    (kinds.LAYER_NORM, kinds.HELD_DEVIATION): lambda m, eps: _replaced(
        m, rules.held_layer_norm, m, eps=eps
    ),
    (kinds.LAYER_NORM, kinds.IDENTITY): lambda m, eps: _identity(m, 0.0),
    (kinds.LAYER_NORM, kinds.GRADIENT): _nothing,
    (kinds.RMS_NORM, kinds.HELD_DEVIATION): lambda m, eps: _replaced(
        m, rules.held_rms_norm, m, eps=eps
    ),
    (kinds.RMS_NORM, kinds.GRADIENT): _nothing,
    (kinds.ACTIVATION, kinds.IDENTITY): _activation,
    (kinds.ACTIVATION, kinds.GRADIENT): _nothing,
}
PATCHES |= dict.fromkeys(attention_step.STEP, _nothing)  # whose patches are made together, last
"""By kind and rule: (module, eps) -> patches.  What is not here is refused; no model of
``families`` has an operation of the kind "bilinear"."""


@cache
def _slope_at_zero_of_class(activation):
    """The options of an activation change how it is computed, and not its slope at 0."""
    return _slope_at_zero(activation())


@cache
def _slope_at_zero(f):
    with torch.inference_mode(mode=False), torch.enable_grad():
        zero = torch.zeros(1, dtype=torch.float64, device="cpu", requires_grad=True)
        return torch.autograd.grad(f(zero).sum(), zero)[0].item()


def _functional(module):
    """Identity rule at a function: what it was given is kept, and what it gave is replaced."""
    before, f, after = families.FUNCTIONAL[type(module)]
    kept = []
    rule = partial(rules.identity, f, slope_at_zero=_slope_at_zero(f))
    return [
        partial(patches.change_output, getattr(module, before), kept.append),
        partial(patches.change_input, getattr(module, after), lambda _: rule(kept.pop())),
    ]


FUNCTIONS = {kinds.IDENTITY: _functional, kinds.GRADIENT: _nothing}
"""By rule of an activation that is no module: module -> patches."""


def _tap(modules, tap, composite, eps):
    def keep_word(module, output):
        if type(module) in families.CLASS_TOKEN:
            first = getattr(module, families.CLASS_TOKEN[type(module)])
            output = torch.cat([first.expand(len(output), -1, -1), output], dim=1)
        tap.entered.append(rules.wide(output.detach()))

    def keep_token_type(output):
        tap.entered.append(rules.wide(output.detach()))

    def cut(stabilised, x):
        # Words come first; a model may look token types up in the same table as words.
        tap.word, tap.token_type, *_ = *tap.entered, None
        tap.entered.clear()
        tap.whole = whole = rules.wide(x.detach())
        if stabilised:
            kept = whole / rules.stabilize(whole, eps)
            tap.whole, tap.word = whole * kept, tap.word * kept
            tap.token_type = None if tap.token_type is None else tap.token_type * kept
        tap.embedding = x.detach().requires_grad_()
        return tap.embedding

    plan = []
    for module, path in modules.items():
        if type(module) in families.EMBEDDINGS:
            word, receiver = families.EMBEDDINGS[type(module)]
            word = getattr(module, word)
            stabilised = eps and composite.rule(kinds.ADD, module=path) == kinds.EPSILON
            at_sum = partial(cut, stabilised)
            plan += [partial(patches.change_output, word, partial(keep_word, module))]
            if hasattr(module, "token_type_embeddings"):
                types = module.token_type_embeddings
                plan += [partial(patches.change_output, types, keep_token_type)]
            if receiver is None:
                plan += [partial(patches.change_output, word, at_sum)]
            else:
                plan += [partial(patches.change_input, getattr(module, receiver), at_sum)]
    return plan
