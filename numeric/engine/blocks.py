"""Blocks of rules: only the innermost one acts, in its own thread."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode

INNERMOST = threading.local()  # the block that acts, where blocks are nested


@contextmanager
def outside() -> Iterator[None]:
    """Opens a block that no enclosing block of rules has an effect on.

    It ends all blocks within it, even one whose own end was interrupted before it began.
    """
    around, INNERMOST.block = getattr(INNERMOST, "block", None), None
    modes = torch._C._len_torch_function_stack()
    try:
        yield
    finally:
        while torch._C._len_torch_function_stack() > modes:
            torch._C._pop_torch_function_stack()
        INNERMOST.block = around


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
