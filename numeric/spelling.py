"""A hint for misspelt names; the standard library alone, so that commands start fast."""

import difflib
from collections.abc import Iterable


def did_you_mean(given: Iterable[object], known: Iterable[str], *, alike: float = 0.6) -> str:
    """The names in ``known`` that are closest to those ``given``: "; did you mean 'cp-lrp'?".

    Empty where none is ``alike`` enough, from 0 to 1.  Upper and lower case are one.
    """
    names = {name.lower(): name for name in known}
    meant = dict.fromkeys(
        repr(names[found])
        for word in given
        for found in difflib.get_close_matches(str(word).lower(), names, n=1, cutoff=alike)
    )
    return f"; did you mean {', '.join(meant)}?" if meant else ""
