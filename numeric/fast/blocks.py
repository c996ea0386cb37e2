"""Blocks of rules, of which the innermost alone acts, in its own thread."""

import threading
from contextlib import contextmanager

from torch.overrides import TorchFunctionMode

INNERMOST = threading.local()  # of blocks within blocks the one that acts


@contextmanager
def outside():
    """A block in which no block of rules that is around it has an effect."""
    around, INNERMOST.block = getattr(INNERMOST, "block", None), None
    try:
        yield
    finally:
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
