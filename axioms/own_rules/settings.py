"""States a claim about a rule for a number of inputs, in symbols and at points."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice
from typing import ClassVar

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.decide.answers import Tested
from lrp_axioms.axioms.decide.equality import Pairs, Values
from lrp_axioms.axioms.decide.reals import EPS
from lrp_axioms.axioms.decide.signs import UNDEFINED
from lrp_axioms.axioms.own_rules.properties import FACTOR, OTHER, Claim
from lrp_axioms.axioms.own_rules.rules import Nested, Rule, changed, flat, for_symbols, replaced
from lrp_axioms.axioms.rewrites import points
from lrp_axioms.axioms.scoreboard.witness import NEAR_0, differ, limit, written

TRIED = 60  # small points, before a search for a witness gives up
RELATIONS = (sp.Lt, sp.Eq, sp.Gt)


@dataclass(frozen=True)
class Setting(Tested):
    """A claim about a rule for ``count`` inputs; ``fixed`` has the numbers of some operands."""

    claim: Claim
    rule: Rule
    count: int | None
    fixed: Values = field(default_factory=dict)
    assumed: tuple[sp.Basic, ...] = ()  # further facts about the operands
    first: ClassVar[int] = 30

    @cached_property
    def given(self) -> dict[str, Nested]:
        """The arguments of the rule by name, and a second relevance as long as the first."""
        arguments, _ = for_symbols(self.rule, self.count)
        given = dict(zip(self.rule.operation.names[:-1], arguments, strict=False))
        as_other = lambda r: sp.Symbol(r.name.replace("R", OTHER), real=True)
        return {**given, OTHER: changed(given["R"], as_other)}

    @cached_property
    def output(self) -> Values:
        """The value of the output, as the operation computes it from its operands."""
        operation, given = self.rule.operation, self.given
        if not operation.computed:
            return {}
        name, operands = operation.output
        value = operation.computed(*(given[x] for x in operands))
        return {given[name]: value.xreplace(self.fixed)}

    def facts(self) -> list[sp.Basic]:
        """Facts about the operands; logits are in the order of their attention weights."""
        found = [*self.assumed, *(sp.Eq(x, value) for x, value in self.output.items())]
        if not self.rule.operation.attends:
            return found
        a = flat(self.given["a"])
        found += [*(sp.Gt(x, 0) for x in a), sp.Eq(sum(a), 1)]
        z = flat(self.given["z"]) if self.rule.kind == kinds.SOFTMAX else []
        for i, j in combinations(range(len(z)), 2):
            same = ((relation(z[i], z[j]), relation(a[i], a[j])) for relation in RELATIONS)
            found.append(sp.Or(*(sp.And(*both) for both in same)))
        return found

    @cached_property
    def _messages(self) -> list[Nested]:
        _, messages = for_symbols(self.rule, self.count)
        changes = (change(self.given) for change in self.claim.changes)
        return [replaced(replaced(messages, change), self.fixed) for change in changes]

    def pairs(self) -> Pairs:
        """The pairs of expressions that the claim equates."""
        return list(zip(*self.claim.sides(self, *self._messages), strict=True))

    def messages(self) -> list[sp.Expr]:
        """The expressions that must be defined."""
        return flat(self._messages)

    @property
    def relevance(self) -> sp.Expr:
        """The total relevance of the output."""
        return self.total(flat(self.given["R"]))

    @staticmethod
    def total(entries: list[sp.Expr]) -> sp.Expr:
        """The sum over all inputs."""
        return sum(entries, sp.Integer(0))

    @cached_property
    def shown(self) -> dict[str, Nested]:
        """The operands that a point sets, by name; the output and attention follow."""
        follow = "a" if self.rule.kind == kinds.SOFTMAX else self.rule.operation.output[0]
        hidden = {follow, *"Sc"} - set(self.claim.needs)
        return {x: of for x, of in {**self.given, "c": FACTOR}.items() if x not in hidden}

    @cached_property
    def free(self) -> list[sp.Symbol]:
        """The symbols that a point gives numbers for."""
        return [x for x in flat(list(self.shown.values())) if x not in self.fixed]

    def points(self) -> Iterator[Values]:
        """Small integers for the free symbols; attention weights are proportional to them."""
        for found in islice(points.points({"v": (1, len(self.free))}), TRIED):
            yield self.at(dict(zip(self.free, flat(found["v"]), strict=True)))

    def random_point(self) -> Values:
        """A point of larger integers."""
        found = points.many_inputs(self.count or 0, ("v", (1, len(self.free))))
        return self.at(dict(zip(self.free, flat(found["v"]), strict=True)))

    def at(self, values: Values) -> Values:
        """A point with weights of sum 1, a positive factor, and the output."""
        found = {x: values.get(x, sp.Integer(1)) for x in self.free}
        found |= {FACTOR: abs(found[FACTOR])} if FACTOR in found else {}
        found |= {**self.fixed, **self._weights(found)}
        return {**found, **{x: value.xreplace(found) for x, value in self.output.items()}}

    def _near(self, at: Values) -> Values:
        """A point nearby where nothing cancels by accident."""
        row = sp.Matrix([[at[x] or sp.Rational(1, 1000) for x in self.free]])
        return self.at(dict(zip(self.free, points.moved({"v": row})["v"], strict=True)))

    def _weights(self, at: Values) -> Values:
        if not self.rule.operation.attends:
            return {}
        size, of = (sp.exp, "z") if self.rule.kind == kinds.SOFTMAX else (abs, "a")
        sizes = [size(at[x]) for x in flat(self.given[of])]
        return {x: v / sum(sizes) for x, v in zip(flat(self.given["a"]), sizes, strict=True)}

    def sides(self, at: Values, eps: sp.Expr) -> list[sp.Matrix] | None:
        """Both sides at a point from the rule itself, or their limits; None if undefined."""
        operands = [self.given[name] for name in self.rule.operation.names[:-1]]
        found = [
            self.rule(*replaced(replaced(operands, change(self.given)), at), eps or NEAR_0)
            for change in self.claim.changes
        ]
        listed = self.claim.sides(self, *found)
        sides = [sp.Matrix([[x.xreplace(at) for x in side]]) for side in listed]
        try:
            sides = sides if eps else [side.applyfunc(limit) for side in sides]
        except ZeroDivisionError:
            return None
        return None if any(side.has(*UNDEFINED) for side in sides) else sides

    def witness(
        self, at: Values, eps: sp.Expr, *, undefined: bool = False, nearby: bool = True
    ) -> str:
        """The failure of the claim at a point, in words; '' if it holds there."""
        found = self.sides(at, eps)
        if found is None:
            undefined = undefined and self.sides(self._near(at), eps) is None
            said = "undefined (0/0 or a pole)" if undefined else ""
        elif not differ(*found):
            said = ""
        else:
            near = found if eps or not nearby else self.sides(self._near(at), eps)
            said = " versus ".join(map(written, found)) if near and differ(*near) else ""
        rows = {x: sp.Matrix([[y.xreplace(at) for y in flat(m)]]) for x, m in self.shown.items()}
        point = ", ".join(f"{name} = {written(row)}" for name, row in rows.items())
        if any(EPS in x.free_symbols for x in self.messages()):
            point = f"{'eps -> 0' if eps == 0 else f'eps = {eps}'}, {point}"
        return f"{point}: {said}" if said else ""
