"""Verdicts on a rule of one's own, as data and in lines of at most 80 columns."""

import textwrap
from collections import Counter
from dataclasses import dataclass, field

PROVED, IN_LIMIT, REFUTED, UNDECIDED = "proved", "proved as eps -> 0", "refuted", "undecided"
SAME_IF = "the same if you "  # before the name of a rewrite


@dataclass(frozen=True)
class Verdict:
    """The verdict on one rule and one claim, or one rewrite."""

    claim: str
    status: str  # PROVED, IN_LIMIT, REFUTED or UNDECIDED
    scope: str  # activations, numbers of inputs, and operands
    witness: str = ""  # a point where the claim fails, in a refutation or at an eps > 0
    reason: str = ""  # the cause of absorption, or why the claim is undecided

    def text(self) -> str:
        """Status, claim and scope, and below them reason and witness."""
        scope = f", {self.scope}" if self.scope else ""
        found = _wrap(f"[{self.status}] {self.claim}{scope}", "  ")
        witness = self.witness
        if self.status == IN_LIMIT and witness:
            witness = f"but not at {witness}"
        for detail in filter(None, (self.reason, witness)):
            found += _wrap(detail, "    ")
        return "\n".join(found)


@dataclass(frozen=True)
class Judged:
    """One rule, and its verdicts."""

    name: str
    kind: str
    place: str  # file:line of its definition
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def heading(self) -> str:
        """The name and kind of the rule."""
        return f'{self.name}, a rule for "{self.kind}", all others as in AttnLRP'

    def text(self) -> str:
        """Every verdict in full."""
        lines = [self.heading, f"  at {self.place}", *(each.text() for each in self.verdicts)]
        return "\n".join(lines) + "\n"

    def summary(self) -> list[str]:
        """The number of verdicts of each status, and the claims that do not hold."""
        counts = Counter(each.status for each in self.verdicts)
        lines = [", ".join(f"{n} {status}" for status, n in counts.most_common())]
        for status in (REFUTED, UNDECIDED):
            if said := "; ".join(x.claim for x in self.verdicts if x.status == status):
                claims, same, rewrites = said.partition(SAME_IF)
                lines.append(f"{status}: {claims}{same}{rewrites.replace(f'; {SAME_IF}', ', ')}")
        return lines


def _wrap(line: str, indent: str) -> list[str]:
    return textwrap.wrap(line, 80, initial_indent=indent, subsequent_indent="    ")
