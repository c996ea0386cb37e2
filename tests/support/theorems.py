"""The theorems of the package, as their files state them."""

from functools import cache

from axioms.evidence.prove import Verdict, numbered
from axioms.evidence.statements import ROOT, claims, files

FILES = files()


@cache
def stated():
    """Every statement as its file states it, with its label; nothing is run."""
    unknown = dict.fromkeys(("witness", "method", "points", "ran", "error"), "")
    return numbered(
        Verdict(
            number=claim.number, statement=claim.statement, verdict=claim.verdict,
            given="; ".join(claim.given), scope=claim.scope, identities=0, seconds=0,
            test=f"{path.relative_to(ROOT).as_posix()}::", **unknown,
        )
        for path in FILES
        for claim in claims(path)
    )  # fmt: skip
