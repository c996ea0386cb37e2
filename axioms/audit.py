"""Verdicts on a captured graph: the lemmas of the package, composed along its operations.

Conservation composes by theorem 25, one lemma per operation; invariance under a rewrite composes
because its lemma holds for whatever relevance arrives, wherever the rewrite applies.  A rewrite
applies at a node through moves of entries, which pass relevance as it is.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import BIAS, STABILISER, Composite, assigned
from lrp_axioms.axioms.graph import INPUT, PARAMETER, Node, topological
from lrp_axioms.axioms.rewrites.places import BILINEAR, is_kind, operands, over
from lrp_axioms.axioms.rewrites.rewrites import REWRITES
from lrp_axioms.axioms.rules.ledger import absorbing
from lrp_axioms.axioms.scoreboard import scoreboard
from lrp_axioms.axioms.scoreboard.rule_sets import RuleSet

PROVED, REFUTED, BOUNDED, OPEN = scoreboard.PROVED, scoreboard.REFUTED, "bounded", scoreboard.OPEN
PRODUCTS = (kinds.LINEAR, *BILINEAR)
Absorbed: TypeAlias = Mapping[tuple[Node, str], float]  # by operation and cause
ABSORBED = "25"  # the theorem that composes the lemmas of operations
ROUNDING = 1e-9  # share of the logit that float64 may lose in a model of hundreds of operations


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on one statement about the explanation of this model.

    nodes: the operations that decide the statement, or that it applies to
    proof: the number of the theorem that decides it, or the name of the rewrite
    """

    statement: str
    verdict: str  # PROVED, REFUTED, BOUNDED or OPEN
    reason: str
    proof: str
    nodes: tuple[Node, ...] = ()
    witness: str = ""


@dataclass(frozen=True, kw_only=True)
class Structure:
    """Counts in a graph that decide how its explanation depends on the way it was written.

    pairs: (kind below, kind above) of products that feed products -> how often; these can be
        re-associated
    depths: by leaf, number of bilinear products along a path -> how many paths; theorem 8
    merges: canonizer -> how often it would merge nodes
    """

    pairs: Mapping[tuple[str, str], int]
    depths: Mapping[str, Mapping[int, int]]
    merges: Mapping[str, int]


def verdicts(
    root: Node,
    composite: Composite,
    *,
    eps: float,
    absorbed: Absorbed,
    started: float,
    missing: float,
) -> tuple[Verdict, ...]:
    """Decides every statement about one explanation of one model.

    ``absorbed``: measured, by operation and cause; ``started``: the logit; ``missing``: the part
    of it that no leaf received.  Raises LookupError that lists every operation without a lemma.
    """
    return (
        *_conservation(root, composite, eps, absorbed, started, missing),
        *_invariance(root, composite, eps),
    )


def _conservation(
    root: Node,
    composite: Composite,
    eps: float,
    absorbed: Absorbed,
    started: float,
    missing: float,
) -> tuple[Verdict, ...]:
    found = absorbing(root, composite)
    measured: defaultdict[Node, set[str]] = defaultdict(set)  # such as a fixed factor in a function
    for (node, cause), amount in absorbed.items():
        measured[node] |= {cause} if amount else set()
    can = {
        n: (causes | _of_fixed_terms(n) | measured[n]) - _never(n, eps)
        for n, causes in found.items()
    }
    nodes = tuple(node for node, causes in can.items() if causes)
    counts = Counter((cause, n.op) for n, causes in can.items() for cause in causes)
    where = ", ".join(f"{cause} at {k} x {op}" for (cause, op), k in sorted(counts.items()))
    tolerance = ROUNDING * max(1.0, abs(started))
    total = sum(abs(amount) for amount in absorbed.values())
    amounts: defaultdict[str, float] = defaultdict(float)
    for (node, cause), amount in absorbed.items():
        amounts[f"{cause} at {node.op}"] += amount
    shown = (f"{place} {amount:+.6g}" for place, amount in amounts.items() if amount)
    witness = "on this input: " + ", ".join(shown)
    kept = Verdict(
        statement="every operation hands on all the relevance that it receives",
        verdict=PROVED if not nodes else REFUTED if total > tolerance else OPEN,
        reason="no lemma names a cause (theorem 25)" if not nodes else f"absorbed: {where}",
        proof=ABSORBED,
        nodes=nodes,
        witness=witness if nodes and total > tolerance else "",
    )
    explained = abs(missing - sum(absorbed.values()))
    adds_up = Verdict(
        statement="what the leaves miss is what the lemmas say was absorbed",
        verdict=PROVED if explained <= tolerance else OPEN,
        proof=ABSORBED,
        reason=f"theorem 25; on this input to {explained:.1e} logits",
    )
    bound = Verdict(
        statement=f"the leaves miss at most {total:.6g} logits, whatever the signs",
        verdict=BOUNDED,
        reason=(
            f"the sum of sizes of what {_plural(len(nodes), 'operation')} absorb; "
            f"missing {missing:+.6g}"
        ),
        proof=ABSORBED,
        nodes=nodes,
    )
    return kept, adds_up, bound


def _never(node: Node, eps: float) -> set[str]:
    """Causes that cannot act: the stabiliser at epsilon = 0, and at exact operations, as a mean."""
    return {STABILISER} if eps == 0 or node.attributes.get("exact") else set()


def _of_fixed_terms(node: Node) -> set[str]:
    """A parameter keeps its share of a sum; theorem 25 lists it as a leaf, here it is no word.

    A mask has no share where every row sees something, because hidden scores have no relevance.
    """
    shares = node.op == kinds.ADD and "mask" not in node.attributes
    return {BIAS} if shares and any(x.op == PARAMETER for x in node.args) else set()


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _invariance(root: Node, composite: Composite, eps: float) -> Iterator[Verdict]:
    order = topological(root)
    carrying, reached = assigned(order, composite), absorbing(root, composite)
    for name, rewrite in REWRITES.items():
        if not rewrite.applies:
            continue
        involved = {node: found for node in carrying if (found := rewrite.applies(node))}
        held = {n: x for n, x in involved.items() if not any(y in reached for y in (n, *x))}
        if held:
            yield Verdict(
                statement=_invariant(name, held, involved),
                verdict=PROVED,
                proof=name,
                reason=f"no relevance arrives; applies at {_plural(len(held), 'operation')}",
                nodes=tuple(held),
            )
        others = {n: x for n, x in involved.items() if n not in held}
        for (table, why), sites in _group_by_rules(others, composite, eps).items():
            cell = None if why else _cell(name, composite.name, table, at_zero=eps == 0)
            if cell and cell.verdict == scoreboard.NOT_APPLICABLE:
                cell, why = None, NO_RULE
            applies = f"applies at {_plural(len(sites), 'operation')}"
            yield Verdict(
                statement=_invariant(name, sites, involved),
                verdict=cell.verdict if cell else OPEN,
                proof=name,
                reason=f"{cell.eps}; {applies}" if cell else why,
                nodes=tuple(sites),
                witness=cell.witness if cell else "",
            )


def _invariant(rewrite: str, sites: Collection[Node], of: Collection[Node]) -> str:
    return f"invariant under: {rewrite}{' at these operations' if len(sites) < len(of) else ''}"


Table: TypeAlias = tuple[tuple[str, str], ...]  # kinds and their rules, in order
MIXED = "the rewrite combines operations that have different rules for one kind"
EXACT = "the rewrite changes an operation without a stabiliser, such as a mean"
NO_RULE = "the composite has no rule for an operation in the lemma of the rewrite"


def _group_by_rules(
    involved: Mapping[Node, list[Node]], composite: Composite, eps: float
) -> dict[tuple[Table, str], list[Node]]:
    """Groups nodes by their table of rules, and by the reason why no lemma is known; "" for none.

    A lemma is about one table, and at epsilon > 0 about operations that all have a stabiliser.
    """
    groups: dict[tuple[Table, str], list[Node]] = {}
    for node, found in involved.items():
        table = {kind: rule for kind in kinds.RULES if (rule := _rule(kind, node, composite))}
        is_one = all(_rule(x.op, x, composite) == table.get(x.op) for x in found)
        is_exact = eps > 0 and any(x.attributes.get("exact") for x in (node, *found))
        why = MIXED if not is_one else EXACT if is_exact else ""
        groups.setdefault((tuple(sorted(table.items())), why), []).append(node)
    return groups


def _rule(kind: str, node: Node, composite: Composite) -> str | None:
    """The rule of a kind of operation in the place of this node."""
    module = node.origin.module if node.origin else node.name
    return composite.rule(kind, layer=node.attributes.get("layer"), module=module)


@cache  # a lemma holds for every model that it is asked for
def _cell(rewrite: str, composite: str, table: Table, *, at_zero: bool) -> scoreboard.Cell:
    rule_set = RuleSet(name=composite, composite=Composite(composite, dict(table)))
    return scoreboard.decide(rule_set, rewrite, scoreboard.LIMIT if at_zero else scoreboard.FINITE)


def structure(root: Node) -> Structure:
    """Counts re-associable products, bilinear depths of all paths, and merges by canonizers."""
    order = [node for node in topological(root) if node.op != PARAMETER]
    pairs = Counter(
        (below.op, node.op)
        for node in order
        if is_kind(node, *PRODUCTS)
        for below in operands(node)
        if is_kind(below, *PRODUCTS)
    )
    chains = {
        "sums of sums": kinds.ADD,
        "products of products": kinds.PRODUCT,
        "linear layers of linear layers": kinds.LINEAR,
    }
    merges = {x: sum(bool(over(k, k)(node)) for node in order) for x, k in chains.items()}
    return Structure(pairs=dict(pairs), depths=depths(root), merges=merges)


def depths(root: Node) -> dict[str, dict[int, int]]:
    """Counts the paths from the root to each leaf, by the number of bilinear products on them.

    As epsilon -> 0 and without biases, relevance along a path of depth d is gradient x input
    divided by 2^d (theorem 8).
    """
    paths: dict[Node, Counter[int]] = {node: Counter() for node in topological(root)}
    paths[root][0] = 1
    found: dict[str, Counter[int]] = {}
    for node in reversed(topological(root)):
        if node.op == INPUT:
            found.setdefault(node.name, Counter()).update(paths[node])
        halves = node.op in (*BILINEAR, kinds.PRODUCT) and len(operands(node)) > 1
        for x in node.args:
            for depth, count in paths[node].items():
                paths[x][depth + halves] += count
    return {name: dict(sorted(counts.items())) for name, counts in found.items()}
