"""Decides which maps of a page are open, so that no page is longer than 6,000 pixels at first."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

HIGHEST, TEXT = 5_300, 4_500  # pixels of all open maps, and of one text, which then scrolls
MAPPED = 60  # tokens of a map of layers that is open


def count_open(sections: Sequence[Any]) -> int:
    """Counts the first sections that a page shows at once, at least one."""
    return max(1, sum(x < HIGHEST for x in accumulate(map(_height, sections))))


def _height(section: Any) -> int:
    """Estimates the pixels of a section on a page 1,200 pixels wide, and rather too many."""
    letters = sum(len(each.encode(errors="replace")) + 2 for each in section.tokens)
    rows = len(section.tokens) + 4 if len(section.tokens) <= MAPPED else 2
    picture = 0 if section.picture is None else 400
    return 240 + min(36 * (letters // 80), TEXT) + 25 * rows * len(section.maps) + picture
