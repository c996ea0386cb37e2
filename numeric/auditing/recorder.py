"""Records which operations the engine of propagation meets while a model runs its own code."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten
from transformers import PreTrainedModel

from axioms import kinds
from axioms.composites import ATTNLRP, Operation
from axioms.graph import INPUT, MOVE, PARAMETER, Node, Origin
from numeric.auditing import nodes, parts
from numeric.auditing.activations import activation
from numeric.auditing.functions import FIXED, WORD
from numeric.auditing.maps import Map
from numeric.auditing.nodes import ORIGIN
from numeric.engine.calls import Call, Use
from numeric.engine.engine import Propagation
from numeric.engine.entries import Entries, Entry
from numeric.engine.marks import (
    HELD,
    PRODUCT,
    Args,
    Chain,
    Function,
    Kwargs,
    is_curved,
    mark,
    reached,
)
from numeric.engine.operations import EMBEDDING
from numeric.models.places import LAYER

NODE = "_lrp_axioms_node"  # the attribute of a tensor that says which operation computed it


@dataclass(eq=False)
class Running:
    """One torch function while it runs.

    args: with a copy in place of what is written to
    inplace: whether ``func`` itself writes to its first argument
    kind: of the rule that acts at its output   settled: arguments as they are used, by identity
    rising: between the lookup of words and the sum of embeddings
    before: of what it reads, parts of which it may write to, the operations that computed it
    """

    call: Call
    func: Function
    args: Args
    kwargs: Kwargs
    inplace: bool
    rising: bool
    kind: str | None = None
    settled: dict[int, Tensor] = field(default_factory=dict)
    before: dict[int, Node] = field(default_factory=dict)

    def operands(self) -> tuple[list[Any], Any]:
        """The arguments, in a row, as the rules use them; and how they are nested."""
        row, nesting = tree_flatten((self.args, self.kwargs))
        return [self.settled.get(id(x), x) for x in row], nesting


class Recorder(Propagation):
    """The engine without its rules: every operation becomes a node of ``axioms.graph``.

    What an operation is, is decided by the code that decides it for ``attribute``.

    values: of every leaf
    trace: of every operation its layer, its function, the module inside of the layer, and how far
        back its operands are
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model, ATTNLRP)  # no rule of which cuts anything off
        self.spells = True
        named = (*model.named_parameters(), *model.named_buffers())
        # By address, because a transposed weight is still that weight.
        self.names = {x.data_ptr(): name for name, x in named}
        self.values: dict[Node, Tensor] = {}
        self.words: dict[Node, Entry] = {}
        self.trace: list[tuple[Any, ...]] = []
        self.made: dict[Node, tuple[int | None, int]] = {}  # layer, number
        self.running: list[Running] = []
        self.calls: dict[str, list[FrameType | None]] = {}  # of every layer, in the order of time

    def clear(self) -> None:
        super().clear()
        self.entries = Entries(self.model, typed=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.calls.clear()  # whose frames hold on to all that they computed
        super().__exit__(kind, error, trace)

    def node_of(self, x: Tensor) -> Node:
        """The operation that computed ``x``, which may have been written to since."""
        if self.running and id(x) in self.running[-1].before:
            return self.running[-1].before[id(x)]
        known: tuple[Node | None, int | None] = getattr(x, NODE, (None, None))
        node, version = known
        if node is not None and version == x._version:
            return node
        base = x._base
        if base is None or not hasattr(base, NODE) or not parts.is_part(x, base):
            hidden = "code that torch does not show"
            self.refuse("a write into a part of a tensor" if node or base is not None else hidden)
            node = self.leaf(x, FIXED)
        else:
            cut = parts.part_of(x, base)
            node = self.make(MOVE, (self.node_of(base),), x.shape, map=Map(cut))
        return self.put(x, node)

    def put(self, x: Tensor, node: Node) -> Node:
        setattr(x, NODE, (node, x._version))
        return node

    def rule(self, kind: str, places: Sequence[Operation] | None = None) -> str:
        return self.composite.rules[kind]

    def apply(self, kind: str, z: Tensor, bias: Tensor | None = None, rule: str = "") -> Tensor:
        self.running[-1].kind = kind
        return z

    def settle(self, x: Tensor, kind: str = kinds.BILINEAR) -> Tensor:
        what = mark(x)
        if what == PRODUCT:
            y = x.view_as(x)
            self.put(y, nodes.product(self, self.node_of(x), kind))
        else:
            y = super().settle(x, kind)
            if y is not x and not hasattr(y, NODE):
                self.put(y, activation(self, what, getattr(x, ORIGIN)))
        if y is not x and self.running:
            self.running[-1].settled[id(x)] = y
        return y

    def _of_chain(self, chain: Chain, y: Tensor) -> Tensor:
        self.check(chain)
        return chain.replay(chain.root)

    def _act(self, use: Use) -> Any:
        call, func, args, kwargs, carrying = use
        inplace = func.__name__ == "__setitem__" or func.__name__.rstrip("_") + "_" == func.__name__
        given, before = args, {}
        if inplace or call.writes:
            first, self.whole = args[0], self._whole(args[0])
            copy = first.detach().clone()
            if reached((first,)):
                known = self.settle(first) if is_curved(first) else first
                self.put(copy.requires_grad_(), self.node_of(known))
            given = (copy, *args[1:])
            read = [x for x in carrying if x is not first and hasattr(x, NODE)]
            before = {id(x): self.node_of(x) for x in read}
        rising = any(id(x) in self.entries.rising for x in carrying)
        self.running.append(Running(call, func, given, kwargs, inplace, rising, before=before))
        try:
            out = super()._act(use)
            settled = self.running[-1].settled
            if given is not args and id(args[0]) in settled:
                settled[id(given[0])] = settled[id(args[0])]
            self._note(args[0] if inplace else out)
            if inplace:
                self._spread(args[0])
        finally:
            self.running.pop()
        return out

    def _whole(self, x: Tensor) -> tuple[Tensor | None, Node | None]:
        """What ``x`` is a part of, and the operation that computed it, before a write into it."""
        base = x._base
        if base is None or not parts.is_part(x, base):
            return None, None
        if not reached((base,)):
            return base, None
        # What has no node is inside of a function of torch, where no code can read it again.
        return (base, self.node_of(base)) if hasattr(base, NODE) else (None, None)

    def _spread(self, x: Tensor) -> None:
        """After a write into ``x``, what it is a part of is another tensor, too."""
        base, before = self.whole
        if base is None:
            return
        write: Callable[..., Tensor] = parts.write_into(x, base)
        of = [self.node_of(x)]
        if before is None:
            write = partial(write, whole=self.keep(base))
        else:
            of.append(before)
        self.put(base, self.make(MOVE, of, base.shape, map=Map(write)))

    def _note(self, out: Any) -> None:
        """A node for every output that has none; those within this function have left theirs."""
        running = self.running[-1]
        several = isinstance(out, (list, tuple))
        for index, x in enumerate(out if several else [out]):
            if not reached((x,)) or (hasattr(x, NODE) and not running.inplace):
                continue
            if is_curved(x):
                setattr(x, ORIGIN, getattr(x, ORIGIN, None) or self.origin())
            else:
                self.put(x, nodes.node(self, running, x, index if several else None))

    def _written(self, x: Tensor, value: Tensor, what: Any) -> Tensor:
        if is_curved(value):
            setattr(x, ORIGIN, getattr(value, ORIGIN))
            return super()._written(x, value, what)
        node = None if what == HELD else self.node_of(value)
        out = super()._written(x, value, what)
        if node is not None:
            self.put(out, node)
            self._spread(out)
        return out

    def _constant(self, call: Call, func: Function, args: Args, kwargs: Kwargs) -> Any:
        out = super()._constant(call, func, args, kwargs)
        if reached((out,)) and not hasattr(out, NODE):
            origin, _ = self.origin()
            leaf = self.leaf(out, WORD, name=origin.module, origin=origin)
            self.put(out, leaf)
            self.words[leaf] = self.entries.all[-1]
        elif call.role == EMBEDDING:
            setattr(out, ORIGIN, self.origin())  # of positions, which are added to words
        return out

    def make(
        self,
        op: str,
        args: Iterable[Node],
        shape: Sequence[int],
        where: tuple[Origin, int | None] | None = None,
        **attributes: Any,
    ) -> Node:
        """An operation at the place that is running, or at ``where``."""
        origin, layer = where or self.origin()
        name = self.running[-1].call.name if self.running else op
        about = {"layer": layer, "shape": tuple(shape)} | attributes
        node = Node(op, tuple(args), f"{name} {len(self.trace)}", origin, about)
        inside = LAYER.split(origin.module)[-1]
        before = [self.made.get(x, (None, 0)) for x in args if x.op != PARAMETER]
        back = tuple(len(self.trace) - n if at == layer else "from outside" for at, n in before)
        self.made[node] = layer, len(self.trace)
        self.trace.append((layer, attributes.get("function", name), inside, back))
        return node

    def leaf(
        self,
        x: Tensor | float,
        role: str,
        *,
        op: str = INPUT,
        name: str = "",
        origin: Origin | None = None,
    ) -> Node:
        if isinstance(x, Tensor):
            x = self.keep(x)
        else:
            x = torch.tensor(x, dtype=torch.float64, device="cpu")
        name = name or self.names.get(x.data_ptr(), f"fixed {len(self.values)}")
        node = Node(op, (), name, origin, {"role": role, "shape": tuple(x.shape)})
        self.values[node] = x
        return node

    def keep(self, x: Tensor) -> Tensor:
        """A fixed tensor as it is now, because code may write in it."""
        return x.detach() if x.data_ptr() in self.names else x.detach().clone()

    def parameter(self, x: Tensor | float) -> Node:
        return self.leaf(x, WORD, op=PARAMETER)

    def origin(self) -> tuple[Origin, int | None]:
        """Where the model is, and in which layer; one that is called again counts as the next."""
        (path, *_), _ = self.places.module()
        origin = Origin(module=path, line=self.places.line())
        found = LAYER.search(path)
        if not found:
            return origin, None
        layer = path[: found.end()]
        calls = self.calls.setdefault(layer, [])
        if (frame := self.places.call_of(self.model.get_submodule(layer))) not in calls:
            calls.append(frame)
        return origin, int(found[1]) + calls.index(frame)
