"""The five functions of the engine that handlers of torch functions call."""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine.calls import Use


class Rules(Protocol):
    """The rules of a composite at the place where a model is running."""

    def rule(self, kind: str) -> str:
        """Returns the rule of the operation of this kind."""

    def apply(self, kind: str, z: Tensor, bias: Tensor | None = None, rule: str = "") -> Tensor:
        """Applies the operation's rule, which may be known already, to its output ``z``."""

    def settle(self, x: Tensor, kind: str = kinds.BILINEAR) -> Tensor:
        """Applies the rule that waited for a use of ``x``, as ``kind`` if ``x`` is a product."""

    def hold(self, x: Tensor) -> None:
        """Notes that ``x`` is held, and with it a function that was computed for it alone."""

    def refuse(self, what: str, *words: object) -> None:
        """Notes a function without a rule; all are raised together when the block ends."""


Handler = Callable[[Rules, Use], Any]
"""Calls a torch function and applies the rule of its operation."""
Step = Callable[..., Any]
"""A function of the engine that an observer wraps."""
