"""All theorems by theme: the meaning of each, its verdicts, and the way to its proof.

``python -m website.catalogue`` decides them all and writes docs/THEOREMS.md.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from lrp_axioms.axioms.evidence.prove import NOT_ESTABLISHED, Verdict, prove
from lrp_axioms.axioms.evidence.rocq import kernel
from lrp_axioms.axioms.evidence.statements import ROOT, table

PAGE = ROOT / "docs" / "THEOREMS.md"

THEMES = {
    "Conservation": "Where does the relevance go that does not reach the inputs?",
    "Linear layers, sums and activations": "What do Eq. 1, z+, gamma, alpha-beta and the rules "
    "of activations guarantee?",
    "Norms": "What do rules make of LayerNorm, RMSNorm and BatchNorm?",
    "Products": "How is relevance shared among factors, and do brackets matter?",
    "Softmax and attention": "What do CP-LRP and AttnLRP say about attention weights, logits and "
    "keys?",
    "Position": "How much relevance does an encoding of position take?",
    "Leave-One-Out and patching": "When is relevance what happens if a token, or an activation, "
    "is replaced?",
    "Mask relevance": "How far does one backward pass through the mask see Leave-One-Out?",
    "Interactions of words": "Which words act together, and what do single words and pairs tell of "
    "larger groups?",
    "Gradients": "When is relevance a gradient, or Integrated Gradients?",
    "Implementation invariance": "Which ways of writing one function get one explanation?",
    "Characterisation": "Which rules are the only ones that obey given axioms, and which cannot "
    "exist?",
    "Models whose causes are known": "Do explanations find the cause of an answer where it is "
    "known?",
}
"""The sections of the page, and the question of a reader that each answers."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """The theorems of a theme, and the numbers of related theorems in other sections."""

    theorems: dict[int, list[Verdict]] = field(default_factory=dict)
    see_also: list[int] = field(default_factory=list)


def sections(verdicts: Sequence[Verdict]) -> dict[str, Section]:
    """Every theorem under the first theme that its file names, by name in order of ``THEMES``.

    Raises ValueError for a theorem whose file names no theme, or one that is not known.
    """
    themes, found = table("THEMES"), {name: Section() for name in THEMES}
    for number, statements in groupby(verdicts, key=lambda verdict: verdict.number):
        named = themes.get(number, [""])
        if unknown := sorted({*named} - THEMES.keys()):
            known = ", ".join(THEMES)
            raise ValueError(
                f"theorem {number} has the theme {unknown[0]!r}; THEMES of its file names some of "
                f"{known}"
            )
        first, *others = named
        found[first].theorems[number] = list(statements)
        for name in others:
            found[name].see_also.append(number)
    return {name: section for name, section in found.items() if section.theorems}


INTRODUCTION = """# Theorems

{count} statements about the rules of LRP, by what they are about: {counts}. A statement is
*proved* by identities of rational functions of generic symbols. A statement that is *refuted* is
false, by an exact counterexample. Under each number you find what it means for somebody who reads
or makes an explanation, the statements, and the command that prints their proofs; with `--latex` it
prints them for a paper. *Decided* says of a proof for how many inputs, keys or channels it was
computed, why it holds for others if it claims to, and what is assumed of symbols beside that they
are real numbers. "As epsilon -> 0" is the limit at almost all points; a statement about a rule that
names no epsilon is about this limit, too. No denominator is 0, such as 1 - A_i in a row of one key.
[PROOFS.md](PROOFS.md) says how statements are decided.

This page is made by `python -m website.catalogue`.
"""


def introduction(verdicts: Sequence[Verdict]) -> str:
    """How many statements there are, and how to read the page.

    Raises ValueError that names every statement that is not established.
    """
    if failed := [verdict.label for verdict in verdicts if verdict.verdict == NOT_ESTABLISHED]:
        raise ValueError(f"not established: {', '.join(failed)}; `lrp-axioms prove` says why")
    kinds = Counter(verdict.verdict for verdict in verdicts)
    counts = ", ".join(f"{count} are {name}" for name, count in sorted(kinds.items()))
    return INTRODUCTION.format(count=len(verdicts), counts=counts)


def page(verdicts: Sequence[Verdict]) -> str:
    """The catalogue as Markdown; raises as ``introduction``."""
    found, meanings = sections(verdicts), table("MEANINGS")
    lines = [introduction(verdicts), "| if you want to know ... | read |", "| --- | --- |"]
    lines += [f"| {THEMES[name]} | [{name}](#{anchor(name)}) |" for name in found]
    for name, section in found.items():
        lines += ["", *heading(name, section), "", "<details>"]
        lines += [f"<summary>{listed(section)}</summary>"]
        for number, statements in section.theorems.items():
            lines += ["", f"### Theorem {number}", "", marked(meanings[number]), ""]
            lines += map(line, statements)
            lines += ["", f"`lrp-axioms prove --show {number}`"]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def line(verdict: Verdict) -> str:
    """A statement with its verdict, and how far it is decided."""
    text = f"{verdict.statement} {kernel(verdict.statement)}".rstrip()
    said = "; ".join(filter(None, (verdict.scope, verdict.given)))
    more = f" *Decided: {marked(said)}.*" if said else ""
    return f"- **{verdict.label}** {verdict.verdict}: {marked(text)}{more}"


def heading(name: str, section: Section) -> list[str]:
    """The lines that begin a section: its name, its question, and related theorems."""
    links = ", ".join(f"[{number}](#theorem-{number})" for number in section.see_also)
    also = f" See also {links} of other sections." if links else ""
    return [f"## {name}", "", THEMES[name] + also]


def listed(section: Section) -> str:
    """Names the theorems of a section, such as "4 theorems: 24, 25, 71 and 72"."""
    *first, last = map(str, section.theorems)
    count = f"{len(section.theorems)} theorem{'s' * bool(first)}"
    return f"{count}: {', '.join(first)} and {last}" if first else f"{count}: {last}"


def anchor(name: str) -> str:
    """The target of a link to a heading."""
    return re.sub(r"[^\w-]", "", name.lower().replace(" ", "-"))


def marked(text: str) -> str:
    """Escapes every character of a text that Markdown would read as markup."""
    return re.sub(r"[\\`*\[]|(?<!\w)_|<(?=[a-zA-Z/!?])", r"\\\g<0>", text)


if __name__ == "__main__":
    PAGE.write_text(page(prove()), "utf-8")
    print(PAGE)
