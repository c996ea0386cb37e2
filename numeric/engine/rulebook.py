"""The rules of a composite in one forward pass, which handlers of torch functions call."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite, Operation, UnassignedOperation
from lrp_axioms.numeric.engine import rules
from lrp_axioms.numeric.engine.at_output import RULES
from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.chains import SQUARES, cuts, roots
from lrp_axioms.numeric.engine.marks import PRODUCT, Chain, Summed, is_curved, mark
from lrp_axioms.numeric.engine.refusals import EXPONENTIAL, STALE, OfRules, Refusals
from lrp_axioms.numeric.models.places import Places, check_overrides


class Rulebook:
    """Finds the rule of each operation, and applies it.

    asks: whether the place of an operation decides on its rule, so that each is noted
    mixed: whether any rule is not the plain gradient
    recorded: the operations that were met   held: functions that only a held sum may use
    """

    def __init__(self, composite: Composite, places: Places, *, eps: float) -> None:
        self.composite, self.places, self.eps = composite, places, eps
        chosen = composite.rules
        complete = len(chosen) == len(kinds.RULES) and RULES.keys() >= chosen.items()
        overridden = bool(composite.layers or composite.modules)
        self.asks = overridden or not complete
        self.mixed = overridden or set(chosen.values()) != {kinds.GRADIENT}
        self.recorded: list[Operation] = []
        self.held: list[Chain] = []
        self.refusals = Refusals()

    def end(self, model: nn.Module, error: BaseException | None) -> None:
        """Raises UnassignedOperation for refused functions, and leaves held operations out."""
        held = {id(x) for chain in self.held if chain.uses == 1 for x in chain.places}
        self.recorded = [x for x in self.recorded if id(x) not in held]
        if self.refusals.all and (error is None or isinstance(error, Exception)):
            raise UnassignedOperation(self.refusals.message(model)) from error

    def check(self) -> None:
        """Raises for operations without a rule, and for overrides that no operation met."""
        if self.asks:
            self.composite.assign(self.recorded, known=RULES)
            check_overrides(self.composite, self.recorded)

    def refuse(self, what: str, *words: object) -> None:
        """Notes a function without a rule, unless the plain gradient needs none."""
        if self.mixed or type(what) is not OfRules:
            self.note_refusal(what, *words)

    def note_refusal(self, what: str, *words: object) -> None:
        self.refusals.note(what, words, self.places.describe())

    def rule(self, kind: str, places: Sequence[Operation] | None = None) -> str:
        """Returns the rule of the operation at ``places``, by default of the running one."""
        if not self.asks:
            return self.composite.rules[kind]
        places = places or self.places.operations(kind)
        self.recorded += places
        (found, *others) = dict.fromkeys(
            self.composite.rule(kind, layer=place.layer, module=place.module) for place in places
        )
        if others:
            raise ValueError(
                f"composite {self.composite.name!r} has the rules {found!r} and {others[0]!r} for "
                f"{kind} of one module, which is at {', '.join(x.module for x in places)}; give "
                "all these places one rule, or the model several modules"
            )
        if found is None or (kind, found) not in RULES:
            return kinds.GRADIENT  # refused at the end
        return found

    def apply(self, kind: str, z: Tensor, bias: Tensor | None = None, rule: str = "") -> Tensor:
        """Applies the operation's rule, which may be known already, to its output ``z``."""
        return RULES[kind, rule or self.rule(kind)].at_output(z, self.eps, bias)

    def settle(self, x: Tensor, kind: str = kinds.BILINEAR) -> Tensor:
        """Applies the rule that waited for a use of ``x``, as ``kind`` if ``x`` is a product."""
        what = mark(x)
        if what == PRODUCT:
            return RULES[kind, self.rule(kind)].at_output(x, self.eps, None)
        if type(what) is Chain and what.curved:
            what.uses += 1
            if what.settled is None:
                with torch.enable_grad():  # code may switch gradients off
                    what.settled = self._of_chain(what, x)
            return what.settled
        return x

    def hold(self, x: Tensor) -> None:
        """Notes that ``x`` is held, and with it a function that was computed for it alone."""
        if self.asks and is_curved(x):
            self.held.append(mark(x))
        elif self.asks:
            sums = (what for what in map(mark, roots(x)) if type(what) is Summed)
            self.held += [what.chain for what in sums]

    def _of_chain(self, chain: Chain, y: Tensor) -> Tensor:
        if chain.exponential:
            self.refuse(EXPONENTIAL)
        if chain.stale or y._version != chain.made:
            self.refuse(STALE, chain.key[0])
        if self.rule(kinds.ACTIVATION, chain.places) == kinds.GRADIENT:
            return rules.in_place_of(y, chain.replay(chain.root))
        bent = False  # whether a curved step lies behind this cut
        for cut in reversed(list(cuts(y))):
            bent = bent or cut.chain.curved
            if bent and cut.shifts():
                cut.met()
        if chain.key in SQUARES:  # its slope y / x is x
            return rules.in_place_of(y, chain.root * chain.root.detach())
        y = y.detach()  # otherwise the graph would keep it
        value, slope = chain.at_zero()
        if value is None:
            return rules.slope(chain.root, y, slope_at_zero=slope)
        sums = [replace(place, kind=kinds.ADD) for place in chain.places]
        chain.places = [*chain.places, *sums]
        above = chain.above(value, y)
        z = rules.slope(chain.root, y, slope_at_zero=slope, above=above)
        return RULES[kinds.ADD, self.rule(kinds.ADD, sums)].at_output(z, self.eps, None)


def by_rule(
    engine: Rulebook, kind: str, f: Callable[..., Tensor], *given: Any, **named: Any
) -> Tensor:
    """Computes ``f`` as the rule of its ``kind`` asks, and applies the rule to the output."""
    rule = engine.rule(kind)
    return engine.apply(kind, RULES[kind, rule].compute(f, *given, **named), rule=rule)


Handler = Callable[[Rulebook, Use], Any]
"""Calls a torch function and applies the rule of its operation."""
Step = Callable[..., Any]
"""A function of the engine that an observer wraps."""
