"""All that a handler of torch functions has of the engine: five functions."""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from axioms import kinds
from numeric.engine.calls import Use


class Rules(Protocol):
    """The rules of a composite at the place where a model is running."""

    def rule(self, kind: str) -> str:
        """The rule of the operation of this kind."""

    def apply(self, kind: str, z: Tensor, bias: Tensor | None = None, rule: str = "") -> Tensor:
        """The output ``z`` of an operation with its rule, which may be known already."""

    def settle(self, x: Tensor, kind: str = kinds.BILINEAR) -> Tensor:
        """``x`` with the rule that waited for its use, as ``kind`` if it is a product."""

    def hold(self, x: Tensor) -> None:
        """Notes that ``x`` is held, and so is a function that was computed for it alone."""

    def refuse(self, what: str, *words: object) -> None:
        """Notes a function without a rule; all are raised together when the block ends."""


Handler = Callable[[Rules, Use], Any]
"""Returns what a function gives, with the rule of its operation."""
Step = Callable[..., Any]
"""A function of the engine that an observer stands around."""
