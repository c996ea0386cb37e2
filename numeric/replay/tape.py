"""Records a call's operations on tensors, and runs them again on other inputs.

Operations are recorded below autograd, so the backward pass is there too, and no rule is looked up
again.  Where code of Python looked at a value, the tape compares the value, and ends without a
result if it is another one.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

Play = Callable[..., list[Tensor] | None]
"""Takes the inputs; returns the outputs, or None where a value is another than at the record."""
Line = tuple[str, list[int], list[int]]
"""A line of code, and the numbers of the tensors that it makes and reads."""

LONGEST = 20_000  # operations on a tape, whose code takes a second to compile
LITERAL = torch.ops.aten.lift_fresh.default
"""Takes a tensor that code of Python made of numbers."""
NUMBERS = (bool, int, float, complex)
SHOWN = {
    *(Tensor.numpy, Tensor.__array__, Tensor.data_ptr, Tensor.storage, Tensor.untyped_storage),
    *(Tensor.__dlpack__, Tensor.__reduce_ex__, Tensor.__deepcopy__),
    *(Tensor.__repr__, Tensor.__format__),
}
"""Functions that show values to code without an operation."""
AS_NUMBERS = {
    *(Tensor.__bool__, Tensor.__int__, Tensor.__index__, Tensor.__float__, Tensor.__complex__),
}
"""Functions that show a value by an operation, which old constructors of tensors skip."""
BY_VALUE = {
    *(torch.tensor_split, Tensor.tensor_split),
    *(torch._pack_padded_sequence, torch._pad_packed_sequence),
}
"""Functions whose results have shapes that values of a later argument decide, unseen."""


class Recorder(TorchDispatchMode):
    """Writes operations down, as lines of a function of ``inputs``.

    Weights are read anew whenever the function runs.  failed: why no function can be made, or "".
    """

    def __init__(self, inputs: Sequence[Tensor], weights: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types here
        self.known = {id(x): x for x in weights}
        self.slots = WeakTensorKeyDictionary()  # tensors keep their numbers while they live
        self.numbers = count()
        self.inputs = [self._slot(x) for x in inputs]
        self.named: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.lines: list[Line] = []
        self.literals = 0
        self.failed = ""
        self.looks = _Looks(self)

    def __enter__(self) -> Self:
        super().__enter__()  # type: ignore[no-untyped-call]  # torch has no types here
        self.looks.__enter__()  # type: ignore[no-untyped-call]  # torch has no types here
        return self

    def __exit__(self, *error: Any) -> None:
        self.looks.__exit__(*error)  # type: ignore[no-untyped-call]  # torch has no types here
        del self.looks  # both refer to each other, and would keep all weights
        super().__exit__(*error)  # type: ignore[no-untyped-call]  # torch has no types here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is LITERAL and args[0] not in self.slots:
            self.literals += 1
            kept = args[0].clone()
            self.known[id(kept)] = kept
            func, args = torch.ops.aten.clone.default, (kept,)  # code may write into its own
        read: list[int] = []
        said = [] if self.failed else [self._said(x, read, func) for x in args]
        if not self.failed:
            said += [f"{name}={self._said(x, read, func)}" for name, x in kwargs.items()]
        out = func(*args, **kwargs)
        if not self.failed:
            self._note(func, f"{self._name(func._op)}({', '.join(said)})", read, out)
        return out

    def looked(self, x: Tensor, values: object) -> None:
        """Notes that code read ``values`` out of ``x``."""
        read: list[int] = []
        said = self._said(x, read)
        self.lines.append((f"if {said}.tolist() != {self._name(values)}: return None", [], read))

    def tape(self, outputs: Sequence[Tensor]) -> Play | None:
        """Returns the function of the inputs that computes ``outputs``, or None."""
        ends = [self.slots.get(x) for x in outputs]
        if self.failed or None in ends or len(self.lines) > LONGEST:
            return None
        last = {x: n for n, (_, made, read) in enumerate(self.lines) for x in (*made, *read)}
        text = [f"def play({', '.join(f'v{x}' for x in self.inputs)}):"]
        for n, (line, made, read) in enumerate(self.lines):
            gone = {x for x in (*made, *read) if last[x] == n}.difference(ends)
            text += [f" {line}", *(f" del v{x}" for x in gone)]
        text.append(f" return [{', '.join(f'v{x}' for x in ends)}]")
        scope = dict(self.named)
        exec(compile("\n".join(text), "<tape>", "exec"), scope)
        return scope.pop("play")  # type: ignore[no-any-return]  # else its globals would hold it

    def _note(self, func: Any, call: str, read: list[int], out: Any) -> None:
        several = type(out) in (list, tuple)
        outs = out if several else (out,)
        tensors = [x for x in outs if isinstance(x, Tensor)]
        made = [self._slot(x) for x in tensors]
        line = call
        if type(out) in NUMBERS:  # code of Python looks at it
            line = f"if {call} != {self._name(out)}: return None"
        elif made and all(x is None or isinstance(x, Tensor) for x in outs):
            names = ["_" if x is None else f"v{self._slot(x)}" for x in outs]
            line = f"{', '.join(names)}{',' * several} = {call}"
        elif out is not None:
            self.failed = f"{func} returns a {type(out).__name__}"
        self.lines.append((line, made, read))
        if torch.Tag.dynamic_output_shape in func.tags:  # code may look at the shape
            for x, slot in zip(tensors, made, strict=True):
                said = f"if v{slot}.shape != {self._name(x.shape)}: return None"
                self.lines.append((said, [], [slot]))

    def _said(self, x: Any, read: list[int], func: Any = None) -> str:
        """Writes an argument down, and adds the tensors in it to ``read``."""
        if isinstance(x, Tensor):
            slot = self.slots.get(x)
            if slot is not None:
                read.append(slot)
                return f"v{slot}"
            if self.known.get(id(x)) is not x:
                self.failed = f"a tensor of {func} comes from no operation"
        elif type(x) in (list, tuple):
            return f"[{', '.join(self._said(y, read, func) for y in x)}]"
        elif x is None or type(x) in (bool, int):
            return repr(x)
        return self._name(x)

    def _name(self, x: object) -> str:
        name = self.names.setdefault(id(x), f"c{len(self.names)}")
        self.named[name] = x
        return name

    def _slot(self, x: Tensor) -> int:
        slot: int | None = self.slots.get(x)
        if slot is None:
            self.slots[x] = slot = next(self.numbers)
        return slot


class _Looks(TorchFunctionMode):
    """Tells a recorder where code looks at values without an operation."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        seen = self.recorder
        literals, lines = seen.literals, len(seen.lines)
        out = func(*args, **(kwargs or {}))
        given = (*args, *(kwargs or {}).values())
        if func is Tensor.tolist:
            seen.looked(args[0], out)
        elif func in SHOWN or (func in AS_NUMBERS and len(seen.lines) == lines):
            seen.failed = f"{func.__name__} shows values to other code"
        elif func in BY_VALUE and any(isinstance(x, Tensor) for x in given[1:]):
            seen.failed = f"{func.__name__} reads values for shapes"
        elif seen.literals > literals and any(map(_has_tensors, given)):
            seen.failed = f"{func.__name__} reads values out of a list of tensors"
        return out


def _has_tensors(x: object) -> bool:
    """Decides whether ``x`` is a sequence with a tensor, at any depth."""
    if not isinstance(x, Sequence) or isinstance(x, str | bytes):
        return False
    return any(isinstance(y, Tensor) or _has_tensors(y) for y in x)
