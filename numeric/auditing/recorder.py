"""Records the operations that propagation meets while a model runs its own code."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.graph import MOVE, Node
from lrp_axioms.numeric.auditing import nodes
from lrp_axioms.numeric.auditing.draft import (
    NODE,
    ORIGIN,
    WORD,
    Draft,
    Running,
    is_part,
    write_into,
)
from lrp_axioms.numeric.auditing.functions import activation
from lrp_axioms.numeric.auditing.maps import Map
from lrp_axioms.numeric.engine import attention
from lrp_axioms.numeric.engine.calls import Call, Use
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.entries import Entries
from lrp_axioms.numeric.engine.entry import Entry
from lrp_axioms.numeric.engine.marks import (
    HELD,
    PRODUCT,
    Args,
    Function,
    Kwargs,
    is_curved,
    mark,
    reached,
)
from lrp_axioms.numeric.engine.operations import ATTENTION, EMBEDDING
from lrp_axioms.numeric.engine.rulebook import Step


class Recorder:
    """Makes a node of ``axioms.graph`` of every operation that a pass of ``block`` meets.

    The code that decides on an operation's kind for ``attribute`` decides here, too.
    """

    def __init__(self, model: nn.Module) -> None:
        self.block = block = Propagation(model, ATTNLRP)  # under its rules nothing is cut off
        block.handlers[ATTENTION] = attention.unfuse
        self.entries = block.entries = Entries(model, typed=True)
        self.draft, self.words = Draft(block), dict[Node, Entry]()
        block.observe(
            act=self.act,
            constant=self.constant,
            written=self.written,
            apply=self.applied,
            settle=self.settled,
        )

    def applied(self, go: Step, kind: str, *given: Any, **named: Any) -> Any:
        self.draft.running[-1].kind = kind
        return go(kind, *given, **named)

    def settled(self, go: Step, x: Tensor, kind: str = kinds.BILINEAR) -> Tensor:
        what, draft = mark(x), self.draft
        y: Tensor = go(x, kind)
        if y is x:
            return y
        if what == PRODUCT:
            draft.put(y, nodes.product(draft, draft.node_of(x), kind))
        elif not hasattr(y, NODE):
            draft.put(y, activation(draft, what, getattr(x, ORIGIN)))
        if draft.running:
            draft.running[-1].settled[id(x)] = y
        return y

    def act(self, go: Step, use: Use) -> Any:
        call, func, args, kwargs, carrying = use
        draft, given, before = self.draft, args, {}
        inplace = func.__name__ == "__setitem__" or func.__name__.rstrip("_") + "_" == func.__name__
        if inplace or call.writes:
            first, self.whole = args[0], self._whole(args[0])
            copy = first.detach().clone()
            if reached((first,)):
                known = self.block.book.settle(first) if is_curved(first) else first
                draft.put(copy.requires_grad_(), draft.node_of(known))
            given = (copy, *args[1:])
            read = [x for x in carrying if x is not first and hasattr(x, NODE)]
            before = {id(x): draft.node_of(x) for x in read}
        rising = any(map(self.entries.is_rising, carrying))
        running = Running(call, func, given, kwargs, inplace, rising, before)
        draft.running.append(running)
        try:
            out = go(use)
            if given is not args and id(args[0]) in running.settled:
                running.settled[id(given[0])] = running.settled[id(args[0])]
            self._note(running, args[0] if inplace else out)
            if inplace:
                self._spread(args[0])
        finally:
            draft.running.pop()
        return out

    def _note(self, running: Running, out: Any) -> None:
        """Makes a node for every output; calls within this function have made theirs."""
        several = isinstance(out, (list, tuple))
        for index, x in enumerate(out if several else [out]):
            if not reached((x,)) or (hasattr(x, NODE) and not running.inplace):
                continue
            if is_curved(x):
                setattr(x, ORIGIN, getattr(x, ORIGIN, None) or self.draft.origin())
            else:
                running.out, running.index = x, index if several else None
                self.draft.put(x, nodes.node(self.draft, running))

    def _whole(self, x: Tensor) -> tuple[Tensor | None, Node | None]:
        """Returns the base of ``x`` and the base's node, before a write into ``x``."""
        base = x._base
        if base is None or not is_part(x, base):
            return None, None
        if not reached((base,)):
            return base, None
        # A base without a node is inside of a function of torch, where no code reads it again.
        return (base, self.draft.node_of(base)) if hasattr(base, NODE) else (None, None)

    def _spread(self, x: Tensor) -> None:
        """Gives the base a new node after a write into its part ``x``."""
        base, before = self.whole
        if base is None:
            return
        write: Callable[..., Tensor] = write_into(x, base)
        of = [self.draft.node_of(x)]
        if before is None:
            write = partial(write, whole=self.draft.keep(base))
        else:
            of.append(before)
        self.draft.put(base, self.draft.make(MOVE, of, base.shape, map=Map(write)))

    def written(self, go: Step, x: Tensor, value: Tensor, what: Any) -> Any:
        if is_curved(value):
            setattr(x, ORIGIN, getattr(value, ORIGIN))
            return go(x, value, what)
        node = None if what == HELD else self.draft.node_of(value)
        out = go(x, value, what)
        if node is not None:
            self.draft.put(out, node)
            self._spread(out)
        return out

    def constant(self, go: Step, call: Call, func: Function, args: Args, kwargs: Kwargs) -> Any:
        out = go(call, func, args, kwargs)
        if reached((out,)) and not hasattr(out, NODE):
            origin, _ = self.draft.origin()
            leaf = self.draft.leaf(out, WORD, name=origin.module, origin=origin)
            self.draft.put(out, leaf)
            self.words[leaf] = entry = self.entries.all[-1]
            self.draft.put(entry.leaf, leaf)
        elif call.role == EMBEDDING:
            setattr(out, ORIGIN, self.draft.origin())  # positions, which are added to words
        return out
