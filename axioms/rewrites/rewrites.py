"""Every rewrite by name, in the order of the scoreboard, and groups of rewrites by name."""

from lrp_axioms.axioms.rewrites import attention, layers, products, units
from lrp_axioms.axioms.rewrites.rewrite import GENERAL, OF_ATTENTION, OF_UNITS, Canonized, Rewrite

EVERY_REWRITE: dict[str, Rewrite] = {
    rewrite.name: rewrite
    for file in (products, layers, attention, units)
    for rewrite in file.REWRITES
}


def _board(board: str) -> dict[str, Rewrite]:
    return {name: rewrite for name, rewrite in EVERY_REWRITE.items() if rewrite.board == board}


def _names(how: Canonized) -> tuple[str, ...]:
    return tuple(x.name for x in EVERY_REWRITE.values() if x.canonized is how)


REWRITES, ATTENTION, UNITS = map(_board, (GENERAL, OF_ATTENTION, OF_UNITS))
ALIKE, BESIDE, IN_THE_LIMIT, OF_HEADS = map(_names, Canonized)
