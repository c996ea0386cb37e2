"""All theorems by what they are about: what each means, its verdicts, and how to read its proof.

``python -m axioms.pages.theorems`` decides them all and writes docs/THEOREMS.md.
"""

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from axioms.evidence.prove import NOT_ESTABLISHED, ROOT, Verdict, prove
from axioms.evidence.rocq import kernel
from axioms.pages.meanings import MEANINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "THEOREMS.md"
TITLE, ALSO = 3, 0.35  # the weight of a file's title; of its own theme, for another to name it


@dataclass(frozen=True, kw_only=True)
class Theme:
    """A section of the catalogue: a question of a reader, and the words of its theorems."""

    question: str
    words: str  # a pattern


THEMES: Mapping[str, Theme] = {
    "Conservation": Theme(
        question="Where does the relevance go that does not reach the inputs?",
        words=r"conserv\w*|absorb\w*|stabilisers?|loses?|arrives",
    ),
    "Linear layers, sums and activations": Theme(
        question="What do Eq. 1, z+, gamma, alpha-beta and the rules of activations guarantee?",
        words=r"linear (?:layer|output|map)s?|sums?|z\+|gamma|alpha\w*|GELU|ReLUs?|activations?",
    ),
    "Norms": Theme(
        question="What do rules make of LayerNorm, RMSNorm and BatchNorm?",
        words=r"\w*Norms?|norm-epsilon|deviations?",
    ),
    "Products": Theme(
        question="How is relevance shared among factors, and do brackets matter?",
        words=r"products?|factors?|bracket\w*|equal split|linear attention",
    ),
    "Softmax and attention": Theme(
        question="What do CP-LRP and AttnLRP say about attention weights, logits and keys?",
        words=r"softmax|attention|readouts?|keys?|CP-LRP|AttnLRP",
    ),
    "Position": Theme(
        question="How much relevance does an encoding of position take?",
        words=r"positions?|rotations?|rotary|angles?|turns",
    ),
    "Leave-One-Out and patching": Theme(
        question="When is relevance what happens if a token, or an activation, is replaced?",
        words=r"leave-one-outs?|leaving|left out|removal|patch\w*",
    ),
    "Mask relevance": Theme(
        question="How far does one backward pass through the mask see Leave-One-Out?",
        words=r"(?:attention )?mask(?: relevance)?",
    ),
    "Gradients": Theme(
        question="When is relevance a gradient, or Integrated Gradients?",
        words=r"(?:Integrated )?gradients?|backward pass|derivatives?|differentiated|detached",
    ),
    "Implementation invariance": Theme(
        question="Which ways of writing one function get one explanation?",
        words=r"one (?:function|graph|explanation)|implementations? of|invarian\w+|fold\w*"
        r"|canonizers?|merg\w+|symmetr\w+|no output shows|several graphs",
    ),
    "Characterisation": Theme(
        question="Which rules are the only ones that obey given axioms, and which cannot exist?",
        words=r"(?:the )?axioms?|force\w*|only if|every rule|there is none|obeys?|exclude|give up",
    ),
    "Models whose causes are known": Theme(
        question="Do explanations find the cause of an answer where it is known?",
        words=r"causes?|recall\w*|induction|facts?|by hand",
    ),
}


def shares(number: int, statements: Sequence[Verdict]) -> dict[str, float]:
    """How much of what is said of a theorem are words of each theme.

    Its file's title counts for more than its meaning and its statements.
    """
    file = statements[0].test.partition("::")[0]
    texts = [*[title(file)] * TITLE, MEANINGS.get(number, "")]
    texts.append(" ".join(verdict.statement for verdict in statements))
    return {
        name: sum(_share(rf"(?<!\w)(?:{one.words})(?!\w)", text) for text in texts)
        for name, one in THEMES.items()
    }


def _share(pattern: str, text: str) -> float:
    found = " ".join(re.findall(pattern, text, re.IGNORECASE))
    return len(found.split()) / (len(text.split()) or 1)


@cache
def title(file: str) -> str:
    """What a file of theorems is about: the first line of its text."""
    text = ast.get_docstring(ast.parse((ROOT / file).read_text("utf-8"))) or ""
    return text.partition("\n")[0].rstrip(".")


@dataclass(frozen=True, kw_only=True)
class Section:
    """The theorems of a theme, and the numbers of those of others that concern it too."""

    theorems: dict[int, list[Verdict]]
    see_also: list[int]


def sections(verdicts: Sequence[Verdict]) -> dict[str, Section]:
    """Every theorem under the theme that most is said of, by name in order of ``THEMES``."""
    found = {name: Section(theorems={}, see_also=[]) for name in THEMES}
    for number, several in groupby(verdicts, key=lambda verdict: verdict.number):
        statements = list(several)
        score = shares(number, statements)
        best = max(score, key=lambda name: score[name])
        found[best].theorems[number] = statements
        for name in found:
            if name != best and score[name] >= ALSO * score[best]:
                found[name].see_also.append(number)
    return {name: section for name, section in found.items() if section.theorems}


INTRODUCTION = """# Theorems

{count} statements about the rules of LRP, by what they are about: {counts}. A statement is
*proved* by identities of rational functions of generic symbols. A statement that is *refuted* is
false, by an exact counterexample. Under each number you find what it means for somebody who reads
or makes an explanation, the statements, and the command that prints their proofs; with `--latex` it
prints them for a paper. *Decided* says of a proof for how many inputs, keys or channels it was
computed, why it holds for others if it claims to, and what is assumed of symbols beside that they
are real numbers. "As epsilon -> 0" is the limit at almost all points.
[PROOFS.md](PROOFS.md) says how statements are decided.

This page is made by `python -m axioms.pages.theorems`.
"""


def introduction(verdicts: Sequence[Verdict]) -> str:
    """How many statements there are, and how to read the page."""
    kinds = Counter(verdict.verdict for verdict in verdicts)
    counts = ", ".join(f"{count} are {name}" for name, count in sorted(kinds.items()))
    return INTRODUCTION.format(count=len(verdicts), counts=counts)


def page(verdicts: Sequence[Verdict]) -> str:
    """The catalogue as Markdown; raises ValueError that names every statement not established."""
    if failed := [verdict.label for verdict in verdicts if verdict.verdict == NOT_ESTABLISHED]:
        raise ValueError(f"not established: {', '.join(failed)}; `lrp-axioms prove` says why")
    found = sections(verdicts)
    lines = [introduction(verdicts), "| if you want to know ... | read |", "| --- | --- |"]
    lines += [f"| {THEMES[name].question} | [{name}](#{anchor(name)}) |" for name in found]
    for name, section in found.items():
        lines += ["", *heading(name, section)]
        for number, statements in section.theorems.items():
            lines += ["", f"### Theorem {number}", "", marked(MEANINGS[number]), ""]
            lines += map(line, statements)
            lines += ["", f"`lrp-axioms prove --show {number}`"]
    return "\n".join(lines) + "\n"


def line(verdict: Verdict) -> str:
    """A statement with its verdict, and how far it is decided."""
    text = f"{verdict.statement} {kernel(verdict.statement)}".rstrip()
    said = "; ".join(filter(None, (verdict.scope, verdict.given)))
    more = f" *Decided: {marked(said)}.*" if said else ""
    return f"- **{verdict.label}** {verdict.verdict}: {marked(text)}{more}"


def heading(name: str, section: Section) -> list[str]:
    """The lines that begin a section: its name, its question, and what else concerns it."""
    links = ", ".join(f"[{number}](#theorem-{number})" for number in section.see_also)
    also = f" See also {links} of other sections." if links else ""
    return [f"## {name}", "", THEMES[name].question + also]


def anchor(name: str) -> str:
    """What a link to a heading is called."""
    return re.sub(r"[^\w-]", "", name.lower().replace(" ", "-"))


def marked(text: str) -> str:
    """The text, no character of which Markdown reads otherwise."""
    return re.sub(r"[\\`*\[]|(?<!\w)_|<(?=[a-zA-Z/!?])", r"\\\g<0>", text)


if __name__ == "__main__":
    PAGE.write_text(page(prove()), "utf-8")
    print(PAGE)
