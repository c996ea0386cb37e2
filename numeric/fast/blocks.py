"""Blocks of rules, of which the innermost alone acts, in its own thread."""

import threading
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode

INNERMOST = threading.local()  # of blocks within blocks the one that acts


@contextmanager
def outside():
    """A block in which no block of rules that is around it has an effect.

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

    def __enter__(self):
        self.around, INNERMOST.block = getattr(INNERMOST, "block", None), self
        return super().__enter__()

    def __exit__(self, kind, error, trace):
        super().__exit__(kind, error, trace)
        INNERMOST.block = self.around

    @property
    def acts(self) -> bool:
        return INNERMOST.block is self
