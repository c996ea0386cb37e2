"""Propagation rules attached to torch functions while a stock model runs its own code.

During the forward pass every torch function that an activation reaches is looked up in
``operations.ROLES``, and the rule of its kind acts on the spot (``handlers``).  The model is not
changed, and other threads do not see the rules.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from axioms import kinds
from axioms.composites import Composite, Operation, UnassignedOperation
from numeric.engine import at_output, gradients, handlers, rules
from numeric.engine import operations as does
from numeric.engine.attended import Attended, Damping
from numeric.engine.blocks import INNERMOST, Block
from numeric.engine.calls import CALLS, Call, Use, Watch, call_of, checkpoints, foreign, scripts
from numeric.engine.chains import cuts, roots
from numeric.engine.entries import Entries
from numeric.engine.marks import (
    COSINE,
    HELD,
    INHERITED,
    PRODUCT,
    SINE,
    WEIGHTS,
    Args,
    Chain,
    Function,
    Kwargs,
    Summed,
    carries,
    in_order,
    is_curved,
    mark,
    marked,
    reached,
    without_gradient,
)
from numeric.engine.refusals import (
    EXPONENTIAL,
    FOREIGN,
    HELD_PART,
    NO_GRADIENT,
    STALE,
    UNSEEN,
    Refusals,
)
from numeric.engine.rotary import Turned
from numeric.engine.settled import run, without
from numeric.models.places import Places, check_overrides, layer_of
from numeric.models.scans import scans, selecting

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Propagation(Block):
    """The rules of ``composite`` at every torch function that a forward pass of ``model`` calls.

    ``turns``: rotary position keeps half of the relevance of what it turns, noted by layer.
    On leaving the block raises UnassignedOperation that lists every function and every operation
    without a rule, and ValueError for overrides of ``composite`` that no operation met.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        composite: Composite,
        *,
        eps: float = 0.0,
        turns: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.composite, self.eps, self.turns = model, composite, eps, turns
        self.places = Places(model)
        self.watch: Watch | None = None
        self.attended: list[Attended] | None = None  # every softmax, for those who ask
        self.damping: Damping | None = None  # of their scores, while they are noted
        self.spells = bool(eps)  # attention that is fused, so that rules act inside of it
        chosen = composite.rules
        complete = len(chosen) == len(kinds.RULES) and at_output.KNOWN.issuperset(chosen.items())
        overridden = bool(composite.layers or composite.modules)
        # What scans select by is held.
        self.holds = chosen.get(kinds.READOUT) != kinds.GRADIENT and scans(model)
        self.asks = overridden or not complete  # for the place of every operation
        self.recorded: list[Operation] = []
        self.held: list[Chain] = []  # functions of which nothing but a held sum is known to be used
        tables = (chosen, *composite.layers.values(), *composite.modules.values())
        plain = any(table.get(kinds.RMS_NORM) == kinds.GRADIENT for table in tables)
        self.mixed = overridden or set(chosen.values()) != {kinds.GRADIENT}
        self.plain_norms = plain and self.mixed
        self.clear()

    def clear(self) -> None:
        """Forgets the last forward pass."""
        self.refusals = Refusals()
        self.entries = Entries(self.model, typed=self.turns)
        self.turned = Turned()

    def __enter__(self) -> Self:
        self.places.begin()
        if scripts():
            self.watch = Watch()
            called = self.watch.around(type(self)._called.__get__(self), self.refuse)
            self._called = called  # type: ignore[assignment, method-assign]  # of one block
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        held = {id(x) for chain in self.held if chain.uses == 1 for x in chain.places}
        self.recorded = [x for x in self.recorded if id(x) not in held]
        if self.refusals.all and (error is None or isinstance(error, Exception)):
            raise UnassignedOperation(self.refusals.message(self.model)) from error
        if error is None:
            self.check_operations()
            self.turned.check(self.composite)

    def check_operations(self) -> None:
        """Raises for operations without a rule, and for overrides that no operation met."""
        if self.asks:
            self.composite.assign(self.recorded, known=at_output.KNOWN)
            check_overrides(self.composite, self.recorded)

    def __torch_function__(
        self, func: Function, types: Any, args: Args = (), kwargs: Kwargs | None = None
    ) -> Any:
        kwargs = kwargs or {}
        call = CALLS.get(func) or call_of(func)
        if call.role == does.NOTHING or INNERMOST.block is not self:
            return func(*args, **kwargs)
        if checkpoints():  # the rules hold in the forward pass alone, and nothing may run again
            with saved_tensors_hooks(lambda x: x.detach(), lambda x: x):
                return self._called(call, func, args, kwargs)
        return self._called(call, func, args, kwargs)

    def _called(self, call: Call, func: Function, args: Args, kwargs: Kwargs) -> Any:
        if call.role == does.GRADIENT:
            return gradients.differentiate(self, func, args, kwargs)
        attends = self.attended is not None and call.role in (does.SOFTMAX, does.ATTENTION)
        if attends and not torch.is_grad_enabled() and not self.places.in_another_run():
            self.refuse(NO_GRADIENT, call.name)
        carrying = reached(args)
        if kwargs:
            carrying += reached(kwargs.values())
        if kwargs and carrying:
            args, kwargs = in_order(args, kwargs)
            carrying = reached(args) + reached(kwargs.values())
        if carrying and self.holds and (fixed := selecting()):
            args, kwargs, carrying = without(fixed, args, kwargs, carrying)
        if not carrying:
            return self._constant(call, func, args, kwargs)
        if not torch.is_grad_enabled():  # nothing that comes of it has relevance
            return func(*args, **kwargs)
        for x in carrying:
            if found := foreign(type(x.grad_fn)):
                self.refuse(FOREIGN, *found)
        if kwargs and kwargs.get("inplace"):
            kwargs = kwargs | {"inplace": False}
        use = Use(call, call.instead or func, args, kwargs, carrying)
        if self.plain_norms and call.role != does.LAYER_NORM and self._in_plain_norm(call):
            return run(self, use._replace(func=func))
        if call.writes:
            return self.write(args[0], partial(self._act, use))
        return self._act(use)

    def write(self, x: Tensor, act: Callable[[], Tensor]) -> Tensor:
        """``x`` with what ``act`` computes of it, whose gradient may need what is there now."""
        with saved_tensors_hooks(lambda y: y.detach().clone(), lambda y: y):
            value = act()
            what = mark(value)
            if type(what) is Chain:
                goes_on = what.root is not x and what.curved == is_curved(x) and carries(x)
                value, what = (value, what) if goes_on else (self.settle(value), None)
        if is_curved(x):
            # Or nothing could be written to this leaf.
            x.requires_grad_(requires_grad=False)  # type: ignore[call-arg]  # the stub says mode
        return self._written(x, value, what)

    def _written(self, x: Tensor, value: Tensor, what: Any) -> Tensor:
        curved = is_curved(value)
        x.copy_(value.detach() if curved else value)
        if curved:
            x.requires_grad_()
        elif what == HELD and x._base is not None:
            self.refuse(HELD_PART)
        elif what == HELD:
            x.detach_()
        return marked(x, what)

    def end_function(self, x: Tensor) -> None:
        """``x`` as its rule gives it, before code writes into a part of it."""
        if is_curved(x):
            self.write(x, lambda: self.settle(x))
        elif type(mark(x)) is Chain:
            marked(x, None)

    def _in_plain_norm(self, call: Call) -> bool:
        """Whether a norm is running that keeps its gradient; no rule acts on its steps."""
        paths, module = self.places.module()
        given = {self.composite.rule(kinds.RMS_NORM, layer=layer_of(x), module=x) for x in paths}
        plain = "Norm" in type(module).__name__ and given == {kinds.GRADIENT}
        if plain and call.role in (does.DEVIATION, does.COMPOSITE):
            self.rule(kinds.RMS_NORM)
        return plain

    def _act(self, use: Use) -> Any:
        handler = handlers.BY_ROLE.get(use.call.role)
        if handler is None:
            self.refuse(use.name)
            handler = handlers.move
        rising = self.entries.rising
        out = self.entries.rise(self, handler, use) if rising else handler(self, use)
        if self.asks and type(what := mark(out)) is Chain and not what.places:
            what.places = self.places.operations(kinds.ACTIVATION)
        return out

    def _constant(self, call: Call, func: Function, args: Args, kwargs: Kwargs) -> Any:
        """What no relevance reaches; it needs no gradient, though its parameters may."""
        weights = call.role in (does.SOFTMAX, does.CAST) and args and mark(args[0]) == WEIGHTS
        # A scan casts what it selects by together with its values, which stay in float64.
        if weights or (call.role == does.CAST and self.holds and selecting()):
            return handlers.BY_ROLE[call.role](self, Use(call, func, args, kwargs, args[:1]))
        if call.role == does.DROPOUT:
            handlers.dropout(self, Use(call, func, args, kwargs, []))
        out = func(*args, **kwargs)
        if type(out) in (list, tuple):
            return type(out)(without_gradient(x) for x in out)
        if not isinstance(out, Tensor):
            return out
        out = without_gradient(out)
        enters = call.role == does.EMBEDDING or (call.role == does.LINEAR and self.entries.pixels)
        if enters and not self.places.in_another_run():
            return self.entries.begin(call, out, *args, **kwargs)
        for x in args:
            if (what := mark(x)) in INHERITED and mark(out) is None:
                marked(out, HELD if call.role == does.DEVIATION else what)
        if self.turns and call.name in ("cos", "sin"):
            marked(out, COSINE if call.name == "cos" else SINE)
        return out

    def refuse(self, what: str, *words: object) -> None:
        """Notes a function without a rule; all are raised together when the block ends."""
        self.refusals.note(what, words, self.places.describe())

    def rule(self, kind: str, places: Sequence[Operation] | None = None) -> str:
        """The rule of the operation at ``places``, by default of the one that is running."""
        if not self.asks:
            return self.composite.rules[kind]
        places = places or self.places.operations(kind)
        self.recorded += places
        (found, *others) = dict.fromkeys(
            self.composite.rule(kind, layer=place.layer, module=place.module) for place in places
        )
        if others:
            raise ValueError(
                f"composite {self.composite.name!r} has the rules {found!r} and {others[0]!r} for "
                f"{kind} of one module, which is at {', '.join(x.module for x in places)}; give "
                "all these places one rule, or the model several modules"
            )
        if found is None or (kind, found) not in at_output.KNOWN:
            return kinds.GRADIENT  # refused at the end
        return found

    def apply(self, kind: str, z: Tensor, bias: Tensor | None = None, rule: str = "") -> Tensor:
        """The rule of an operation of this kind at its output, which may be known already."""
        return at_output.AT_OUTPUT[kind, rule or self.rule(kind)](z, self.eps, bias)

    def lowered(self, keys: int) -> Tensor | None:
        """What is added to the scores of the next softmax, (batch, token, key), if anything."""
        if self.damping is None or self.attended is None:
            return None
        return self.damping.of(len(self.attended), keys)

    def end(self, x: Tensor) -> Tensor:
        """A logit as it is explained: nothing of this model's code comes after it."""
        if found := foreign(type(getattr(x, "grad_fn", None))):
            self.refuse(FOREIGN, *found)
        if self.watch and isinstance(x, Tensor) and self.watch.is_unseen(x):
            self.refuse(UNSEEN)
        return self.settle(x)

    def settle(self, x: Tensor, kind: str = kinds.BILINEAR) -> Tensor:
        """``x`` with the rule that waited for its use, as ``kind`` if it is a product."""
        what = mark(x)
        if what == PRODUCT:
            return self.apply(kind, x)
        if type(what) is Chain and what.curved:
            what.uses += 1
            if what.settled is None:
                with torch.enable_grad():  # code may ask about gradients where it wants none
                    what.settled = self._of_chain(what, x)
            return what.settled
        return x

    def hold(self, x: Tensor) -> None:
        """``x`` is held, and so is a function that was computed or summed up for it alone."""
        if is_curved(x):
            self.held.append(mark(x))
        else:
            sums = (what for what in map(mark, roots(x)) if type(what) is Summed)
            self.held += [what.chain for what in sums]

    def check(self, chain: Chain) -> None:
        if chain.exponential and self.mixed:  # the plain gradient is that of any spelling
            self.refuse(EXPONENTIAL)
        if chain.stale:
            self.refuse(STALE, chain.key[0])

    def _of_chain(self, chain: Chain, y: Tensor) -> Tensor:
        self.check(chain)
        if self.rule(kinds.ACTIVATION, chain.places) == kinds.GRADIENT:
            return chain.replay(chain.root)
        bent = False  # whether a curved step lies behind this cut
        for cut in reversed(list(cuts(y))):
            bent = bent or cut.chain.curved
            if bent and cut.shifts():
                cut.met()
        if chain.key in handlers.SQUARES:  # whose slope y / x is x
            return chain.root * chain.root.detach()
        y = y.detach()  # or the graph would keep it
        value, slope = chain.at_zero()
        if value is None:
            return rules.slope(chain.root, y, slope_at_zero=slope)
        sums = [replace(place, kind=kinds.ADD) for place in chain.places]
        chain.places = [*chain.places, *sums]
        above = chain.above(value, y)
        z = rules.slope(chain.root, y, slope_at_zero=slope, above=above)
        return self.apply(kinds.ADD, z, rule=self.rule(kinds.ADD, sums))
