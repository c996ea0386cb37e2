"""Propagation rules attached to torch functions while a stock model runs its own code.

During the forward pass every torch function that an activation reaches is looked up in
``operations.ROLES``, and the rule of its kind acts on the spot (``handlers``).  The model is not
changed, and other threads do not see the rules.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.engine import attention, handlers, rules
from lrp_axioms.numeric.engine import operations as does
from lrp_axioms.numeric.engine.blocks import INNERMOST, Block
from lrp_axioms.numeric.engine.calls import (
    CALLS,
    Call,
    Use,
    Watch,
    call_of,
    checkpoints,
    foreign,
    hidden,
    scripts,
)
from lrp_axioms.numeric.engine.entries import Entries
from lrp_axioms.numeric.engine.gradients import differentiate
from lrp_axioms.numeric.engine.marks import (
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
    carries,
    in_order,
    is_curved,
    mark,
    marked,
    reached,
    without_gradient,
)
from lrp_axioms.numeric.engine.refusals import FOREIGN, HELD_PART, PRODUCT_PART, UNSEEN, WRITTEN
from lrp_axioms.numeric.engine.rotary import Turned
from lrp_axioms.numeric.engine.rulebook import Rulebook
from lrp_axioms.numeric.engine.settled import replaced, run
from lrp_axioms.numeric.models.places import Places, layer_of
from lrp_axioms.numeric.models.scans import scans, selector_ids

RESHAPES = ("unsqueeze_", "squeeze_", "transpose_")  # change a tensor in place, and no value


class Propagation(Block):
    """Opens a block where ``model`` runs under the propagation rules of ``composite``.

    The model's outputs inside are its usual ones, and the gradient of a logit with respect
    to ``entries.all[0].embedding`` is ``relevance / embedding``.  With ``eps == 0`` attention runs
    on whatever kernel the model is set to.  With ``turns`` rotary position keeps half of the
    relevance of queries and keys, noted in ``turned``; without it rotation is a fixed linear map.
    Activations in float64 stay in float64, where stock code would pass through float32.
    Raises ValueError (bad ``eps``); on leaving the block UnassignedOperation, with every function
    and every operation without a rule, and ValueError if ``composite`` names a layer or module
    without operations, unless this is a ``part`` of a pass.
    """

    def __init__(
        self,
        model: nn.Module,
        composite: Composite,
        *,
        eps: float = 0.0,
        turns: bool = False,
        part: bool = False,
        places: Places | None = None,
    ) -> None:
        super().__init__()
        floats = (x.dtype for x in model.parameters() if x.is_floating_point())
        rules.check_stabiliser(eps, next(floats, torch.float32))
        self.model: Any = model
        self.turns, self.part = turns, part
        self.places = places or Places(model)
        self.book = Rulebook(composite, self.places, eps=eps)
        self.entries = Entries(model, typed=turns, eps=eps)
        self.turned = Turned(composite, self.places)
        self.watch: Watch | None = None
        self.observed: list[tuple[object, str]] = []
        self.handlers = dict(handlers.BY_ROLE)
        if turns:
            self.handlers[does.MULTIPLY] = self.turned.multiply
        tables = (composite.rules, *composite.layers.values(), *composite.modules.values())
        if eps or not all(map(attention.are_factors, tables)):  # such rules act on the scores
            self.handlers[does.ATTENTION] = attention.unfuse
        # Tensors that choose how much a scan keeps are held.
        self.holds = composite.rules.get(kinds.READOUT) != kinds.GRADIENT and scans(model)
        plain = any(table.get(kinds.RMS_NORM) == kinds.GRADIENT for table in tables)
        self.plain_norms = plain and self.book.mixed

    def observe(self, **around: Callable[..., Any]) -> None:
        """Wraps functions of this block or its book, by name, until the block ends.

        Each wrapper gets the wrapped function first, and then its arguments.
        """
        for name, function in around.items():
            owner = self.book if hasattr(Rulebook, name) else self
            setattr(owner, name, partial(function, getattr(owner, name)))
            self.observed.append((owner, name))

    def __enter__(self) -> Self:
        self.places.begin()
        if scripts():
            self.watch = Watch(self.book.refuse)
            self.observe(called=self.watch.called)
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        while self.observed:  # a circle of references would keep the graph
            owner, name = self.observed.pop()
            vars(owner).pop(name, None)
        self.book.end(self.model, raised[1])
        if raised[1] is None and not self.part:
            self.book.check()
            self.turned.check()

    def __torch_function__(
        self, func: Function, types: Any, args: Args = (), kwargs: Kwargs | None = None
    ) -> Any:
        kwargs = kwargs or {}
        call = CALLS.get(func) or call_of(func)
        if call.role == does.NOTHING or INNERMOST.block is not self:
            return func(*args, **kwargs)
        if checkpoints():  # the rules hold in the forward pass alone, and nothing may run again
            with saved_tensors_hooks(lambda x: x.detach(), lambda x: x):
                return self.called(call, func, args, kwargs)
        return self.called(call, func, args, kwargs)

    def called(self, call: Call, func: Function, args: Args, kwargs: Kwargs) -> Any:
        if call.role == does.GRADIENT:
            settle, end = self.book.settle, self.end
            return differentiate(func, args, kwargs, settle=settle, end=end, places=self.places)
        if why := hidden(call, args, kwargs):
            if why != WRITTEN or self.places.inside():  # code around a model may change its input
                self.book.refuse(why, call.name)
            return func(*args, **kwargs)
        carrying = reached(args) + reached(kwargs.values()) if kwargs else reached(args)
        if kwargs and carrying:
            args, kwargs = in_order(args, kwargs)
            carrying = reached(args) + reached(kwargs.values())
        if carrying and self.holds and (fixed := selector_ids()):
            # The recurrence is linear while its selection is held (theorem 72).
            held = {id(x): x.detach() for x in carrying if id(x) in fixed}
            args, kwargs, carrying = replaced(held, args, kwargs, carrying)
        if not carrying:
            return self.constant(call, func, args, kwargs)
        if not torch.is_grad_enabled():  # its results have no relevance
            return func(*args, **kwargs)
        target = args[0] if call.fills and call.name not in RESHAPES else None
        new = {}
        for x in carrying:
            if found := foreign(type(x.grad_fn)):
                self.book.refuse(FOREIGN, *found)
            what = mark(x)
            if type(what) is Chain and what.curved and (x is target or x._version != what.made):
                new[id(x)] = self.book.settle(x)  # writes through views are there
        if new:
            args, kwargs, carrying = replaced(new, args, kwargs, carrying)
            if not carrying:  # a held value was written
                return self.constant(call, func, args, kwargs)
        if kwargs and kwargs.get("inplace"):
            kwargs = kwargs | {"inplace": False}
        use = Use(call, call.instead or func, args, kwargs, carrying)
        if self.plain_norms and call.role != does.LAYER_NORM and self._in_plain_norm(call):
            return run(self.book, use._replace(func=func))
        if call.writes:
            return self._write(args[0], partial(self.act, use))
        return self.act(use)

    def _in_plain_norm(self, call: Call) -> bool:
        """Whether a norm is running that keeps its gradient; no rule acts on its steps."""
        paths, module = self.places.module()
        rule_of = self.book.composite.rule
        given = {rule_of(kinds.RMS_NORM, layer=layer_of(x), module=x) for x in paths}
        plain = "Norm" in type(module).__name__ and given == {kinds.GRADIENT}
        if plain and call.role in (does.DEVIATION, does.COMPOSITE):
            self.book.rule(kinds.RMS_NORM)
        return plain

    def act(self, use: Use) -> Any:
        """Calls a function of activations, with the rule of its operation."""
        handler = self.handlers.get(use.call.role)
        if handler is None:
            self.book.refuse(use.name)
            handler = handlers.move
        if use.call.fills:
            handler = self._fill
        out = self.entries.rise(self.book, handler, use)
        if self.book.asks and type(what := mark(out)) is Chain and not what.places:
            what.places = self.places.operations(kinds.ACTIVATION)
        return out

    def _fill(self, engine: Rulebook, use: Use) -> Any:
        """Moves a value into an activation."""
        x, *at = use.args
        if HELD in map(mark, at):
            every = at[0] is Ellipsis or (type(at[0]) is slice and at[0] == slice(None))
            if every or use.name in ("copy_", "fill_"):
                return self._write(x, lambda: at[-1])
            engine.refuse(HELD_PART)
            return run(engine, use)
        if is_curved(x):  # only a reshape leaves the function in place
            value = engine.settle(x)
            self._open(x)
            self.written(x, value, None)
        elif type(mark(x)) is Chain:
            marked(x, None)
        elif mark(x) == PRODUCT and any(y is not x for y in use.carrying):
            self.written(x, engine.settle(x), None)
        return handlers.move(engine, use)

    def _open(self, x: Tensor) -> None:
        """Lets code write into ``x``: torch refuses to write to a leaf with a gradient."""
        if is_curved(x):
            x.requires_grad_(requires_grad=False)  # type: ignore[call-arg]  # the stub says mode

    def _write(self, x: Tensor, act: Callable[[], Tensor]) -> Tensor:
        """Writes the result of ``act`` into ``x``; its gradient may need the old value of ``x``."""
        settled = mark(x).settled if is_curved(x) else None
        with saved_tensors_hooks(lambda y: y.detach().clone(), lambda y: y):
            value = act()
            what = mark(value)
            if type(what) is Chain:
                goes_on = what.root is not x and what.curved == is_curved(x) and carries(x)
                value, what = (value, what) if goes_on else (self.book.settle(value), None)
            if settled is not None:  # views of x are views of it
                self.written(settled, self.book.settle(value), HELD if what == HELD else None)
                if type(what) is Chain:
                    what.settled, what.made = settled, x._version
                    marked(x, what)
                return x
        self._open(x)
        return self.written(x, value, what)

    def written(self, x: Tensor, value: Tensor, what: Any) -> Tensor:
        """Copies a value and its mark into ``x``."""
        self.entries.wrote(x, value)
        curved = is_curved(value)
        x.copy_(value.detach() if curved else value)
        if type(what) is Chain:
            what.made = x._version
        if x._base is not None and mark(x._base) == PRODUCT != what:
            marked(x._base, None)
            if x.numel() < x._base.numel():
                self.book.refuse(PRODUCT_PART)
        if curved:
            x.requires_grad_()
        elif what == HELD and x._base is not None:
            self.book.refuse(HELD_PART)
        elif what == HELD:
            x.detach_()
        return marked(x, what)

    def constant(self, call: Call, func: Function, args: Args, kwargs: Kwargs) -> Any:
        """Calls a function that no relevance reaches; its result needs no gradient."""
        weights = call.role in (does.SOFTMAX, does.CAST) and args and mark(args[0]) == WEIGHTS
        # A scan casts the tensors it selects by with its values, which stay in float64.
        if weights or (call.role == does.CAST and self.holds and selector_ids()):
            return self.handlers[call.role](self.book, Use(call, func, args, kwargs, args[:1]))
        if call.role == does.DROPOUT:
            handlers.dropout(self.book, Use(call, func, args, kwargs, []))
        out = without_gradient(func(*args, **kwargs))
        if not isinstance(out, Tensor):
            return out
        enters = call.role == does.EMBEDDING or (call.role == does.LINEAR and self.entries.pixels)
        if enters and not self.places.in_another_run():
            return self.entries.begin(call, out, *args, **kwargs)
        for x in args:
            if (what := mark(x)) in INHERITED and mark(out) is None:
                marked(out, HELD if call.role == does.DEVIATION else what)
        if self.turns and call.name in ("cos", "sin"):
            marked(out, COSINE if call.name == "cos" else SINE)
        return out

    def end(self, x: Tensor) -> Tensor:
        """Ends a pass at a logit, which no code of this model comes after."""
        if found := foreign(type(getattr(x, "grad_fn", None))):
            self.book.refuse(FOREIGN, *found)
        if self.watch and isinstance(x, Tensor) and self.watch.is_unseen(x):
            self.book.refuse(UNSEEN)
        return self.book.settle(x)
