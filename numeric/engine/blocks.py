"""Blocks of rules: only the innermost one acts, in its own thread."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

INNERMOST = threading.local()  # the block that acts, where blocks are nested


@contextmanager
def outside() -> Iterator[None]:
    """Opens a block that no enclosing block of rules has an effect on.

    It ends all blocks within it, even one whose own end was interrupted before it began.
    """
    around, INNERMOST.block = getattr(INNERMOST, "block", None), None
    modes, recorders = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    try:
        yield
    finally:
        INNERMOST.block = around
        while torch._C._len_torch_function_stack() > modes:
            torch._C._pop_torch_function_stack()
        while (left := torch._C._len_torch_dispatch_stack()) > recorders:
            mode = torch._C._get_dispatch_stack_at(left - 1)
            if mode.old_dispatch_mode_flags:  # its end did not begin; it puts flags of torch back
                TorchDispatchMode.__exit__(mode, None, None, None)
            else:
                torch._C._pop_torch_dispatch_stack()


class Block(TorchFunctionMode):
    """A mode that has no effect on another block, or on a call of this project, inside of it."""

    def __enter__(self) -> Self:
        self.around, INNERMOST.block = getattr(INNERMOST, "block", None), self
        super().__enter__()  # type: ignore[no-untyped-call]  # torch has no types here
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]  # torch has no types here
        INNERMOST.block = self.around

    @property
    def acts(self) -> bool:
        return INNERMOST.block is self


class Again(TorchFunctionMode):
    """Calls the innermost block inside a handler, where its mode is off."""

    def __init__(self) -> None:
        super().__init__()
        self._block = INNERMOST.block

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        act: Any = self._block.__torch_function__
        return act(func, types, args, kwargs)
