"""The graph of a forward pass while it is recorded, and the tensors that its nodes computed."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from lrp_axioms.axioms.graph import INPUT, MOVE, PARAMETER, Node, Origin
from lrp_axioms.numeric.auditing.maps import Map
from lrp_axioms.numeric.engine.calls import Call
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.marks import Args, Function, Kwargs
from lrp_axioms.numeric.models.places import LAYER, layer_of

NODE = "_lrp_axioms_node"  # the attribute of a tensor that says which operation computed it
ORIGIN = "_lrp_axioms_origin"  # the attribute of a tensor that says where it was computed
WORD, POSITION, TYPE, FIXED = "word", "position", "token type", "fixed"
"""Roles of leaves: relevance of a leaf that is no word is a part of the residual."""


NUMBER = re.compile(r"\.\d+(?=\.|$)")  # of a layer or a group, in a path
Depth: TypeAlias = int | str | None
"""A layer that runs: its number, with the name of its stack if there are several; or no layer."""


@dataclass(eq=False)
class Running:
    """One torch function while it runs.

    args: with a copy of the argument that is written to
    inplace: whether ``func`` itself writes to its first argument
    rising: between the lookup of words and the sum of embeddings
    before: the nodes of the tensors it reads, whose parts it may write to
    kind: of the rule that acts at its output   settled: arguments as they are used, by identity
    out: the output that a node is made for   index: its place among several
    """

    call: Call
    func: Function
    args: Args
    kwargs: Kwargs
    inplace: bool
    rising: bool
    before: dict[int, Node]
    kind: str | None = None
    settled: dict[int, Tensor] = field(default_factory=dict)
    out: Any = None
    index: int | None = None

    def operands(self) -> tuple[list[Any], Any]:
        """Returns the arguments as the rules use them, flat, and their nesting."""
        row, nesting = tree_flatten((self.args, self.kwargs))
        return [self.settled.get(id(x), x) for x in row], nesting


class Draft:
    """The nodes of one pass of ``block``.

    values: of every leaf
    trace: for every operation its layer, its function, the module inside of the layer, and the
        distances back to its operands
    """

    def __init__(self, block: Propagation) -> None:
        self.model, self.places, self.refuse = block.model, block.places, block.book.refuse
        named = (*self.model.named_parameters(), *self.model.named_buffers())
        # By address, because a transposed weight is still that weight.
        self.names = {x.data_ptr(): name for name, x in named}
        self.values: dict[Node, Tensor] = {}
        self.trace: list[tuple[Any, ...]] = []
        self.made: dict[Node, tuple[Depth, int]] = {}  # layer, number
        self.running: list[Running] = []
        self.calls: dict[str, list[tuple[str, FrameType | None]]] = {}  # of every stack of layers
        paths = (path for path, _ in self.model.named_modules(remove_duplicate=False))
        self.stacks = {_stack(path[: x.end()]) for path in paths if (x := LAYER.search(path))}

    def node_of(self, x: Tensor) -> Node:
        """Returns the node that computed ``x``, even if ``x`` was written to since."""
        if self.running and id(x) in self.running[-1].before:
            return self.running[-1].before[id(x)]
        known: tuple[Node | None, int | None] = getattr(x, NODE, (None, None))
        node, version = known
        if node is not None and version == x._version:
            return node
        base = x._base
        if base is None or not hasattr(base, NODE) or not is_part(x, base):
            hidden = "code that torch does not show"
            self.refuse("a write into a part of a tensor" if node or base is not None else hidden)
            node = self.leaf(x, FIXED)
        else:
            cut = part_of(x, base)
            node = self.make(MOVE, (self.node_of(base),), x.shape, map=Map(cut))
        return self.put(x, node)

    def put(self, x: Tensor, node: Node) -> Node:
        setattr(x, NODE, (node, x._version))
        return node

    def make(
        self,
        op: str,
        args: Iterable[Node],
        shape: Sequence[int],
        where: tuple[Origin, Depth] | None = None,
        **attributes: Any,
    ) -> Node:
        """Makes an operation at the place that is running, or at ``where``."""
        args, (origin, depth) = tuple(args), where or self.origin()
        name = self.running[-1].call.name if self.running else op
        layer = layer_of(origin.module)  # which has rules; a shared one is at several depths
        about = {"layer": layer, "depth": depth, "shape": tuple(shape)} | attributes
        node = Node(op, args, f"{name} {len(self.trace)}", origin, about)
        inside = LAYER.split(origin.module)[-1]
        before = [self.made.get(x, (None, 0)) for x in args if x.op != PARAMETER]
        back = tuple(len(self.trace) - n if at == depth else "from outside" for at, n in before)
        self.made[node] = depth, len(self.trace)
        self.trace.append((depth, attributes.get("function", name), inside, back))
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
        """Keeps a fixed tensor's present values, because code may write in it."""
        return x.detach() if x.data_ptr() in self.names else x.detach().clone()

    def parameter(self, x: Tensor | float) -> Node:
        return self.leaf(x, WORD, op=PARAMETER)

    def origin(self) -> tuple[Origin, Depth]:
        """Returns the present place and depth: its layer, or the next if that is called again.

        The layers of a group are numbered as they run.  A depth names its stack of layers, such as
        a decoder, where a model has several.
        """
        (path, *_), _ = self.places.module()
        origin = Origin(module=path, line=self.places.line())
        found = LAYER.search(path)
        if not found:
            return origin, None
        layer = path[: found.end()]
        stack, grouped = _stack(layer), len(NUMBER.findall(layer)) > 1
        calls = self.calls.setdefault(stack, [])
        if (call := (layer, self.places.call_of(self.model.get_submodule(layer)))) not in calls:
            calls.append(call)
        alike = calls if grouped else [x for x in calls if x[0] == layer]
        depth = alike.index(call) + (0 if grouped else int(found[1]))
        return origin, depth if len(self.stacks) == 1 else f"{stack} {depth}"


def _stack(layer: str) -> str:
    """Names the layers that are numbered together."""
    return NUMBER.sub("", layer)


def is_part(x: Tensor, base: Tensor) -> bool:
    """Decides whether strides tell the place of ``x`` in ``base``."""
    return base.is_contiguous() and x.dtype == base.dtype


def part_of(x: Tensor, base: Tensor) -> Callable[[Tensor], Tensor]:
    """Returns the function that cuts ``x`` out of its ``base``."""
    where = x.shape, x.stride(), x.storage_offset() - base.storage_offset()
    return lambda whole: whole.as_strided(*where)


def write_into(x: Tensor, base: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns the function that writes a value into the place of ``x`` in a copy of the base."""
    part = part_of(x, base)

    def write(value: Tensor, whole: Tensor) -> Tensor:
        whole = whole.clone(memory_format=torch.contiguous_format)
        part(whole).copy_(value)
        return whole

    return write
