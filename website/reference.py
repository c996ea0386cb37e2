"""The reference of public names, as pages for mkdocstrings, which reads their docstrings."""

import re
from collections.abc import Iterator

import griffe

import lrp_axioms

MODULES = {
    "numeric": {
        "What is explained": ["lrp_axioms.numeric.targets"],
        "Composites of rules": ["lrp_axioms.axioms.composites"],
        "Inside other tools": [
            "lrp_axioms.numeric.tools.pipelines",
            "lrp_axioms.numeric.tools.captum",
            "lrp_axioms.numeric.tools.inseq",
            "lrp_axioms.numeric.tools.quantus",
        ],
    },
    "axioms": {
        "Rules of your own": ["lrp_axioms.axioms.own_rules", "lrp_axioms.axioms"],
        "Deciding real numbers": [
            "lrp_axioms.axioms.decide.reals",
            "lrp_axioms.axioms.decide.equality",
        ],
        "Rules and their kinds": [
            "lrp_axioms.axioms.kinds",
            "lrp_axioms.axioms.rules.rule",
            "lrp_axioms.axioms.rules.linear",
            "lrp_axioms.axioms.rules.products",
            "lrp_axioms.axioms.rules.attention",
            "lrp_axioms.axioms.rules.norms",
            "lrp_axioms.axioms.rules.activations",
            "lrp_axioms.axioms.composites",
        ],
        "Graphs and propagation": [
            "lrp_axioms.axioms.graph",
            "lrp_axioms.axioms.rules.propagate",
            "lrp_axioms.axioms.rules.effects",
        ],
        "Deciding statements": [
            "lrp_axioms.axioms.decide.identity",
            "lrp_axioms.axioms.evidence.prove",
            "lrp_axioms.axioms.pages.show",
            "lrp_axioms.axioms.evidence.statements",
        ],
        "Rewrites": [
            "lrp_axioms.axioms.rewrites.rewrite",
            "lrp_axioms.axioms.rewrites.rewrites",
            "lrp_axioms.axioms.rewrites.canonizers",
            "lrp_axioms.axioms.scoreboard.rule_sets",
            "lrp_axioms.axioms.scoreboard.scoreboard",
            "lrp_axioms.axioms.scoreboard.witness",
        ],
        "Accounts of relevance": ["lrp_axioms.axioms.rules.ledger", "lrp_axioms.axioms.audit"],
    },
}
"""Public modules by package, in the order of the pages."""

ABOUT = {
    "numeric": "What is computed. These names are imported from `lrp_axioms`.",
    "axioms": "What is true of propagation rules. Nothing here needs PyTorch.",
}


def pages():
    """Name and Markdown of the page of every package."""
    for package, modules in MODULES.items():
        lines = [f"# {package}", "", ABOUT[package], ""]
        if package == "numeric":
            lines += ["## Functions and results", ""]
            lines += [
                block(f"lrp_axioms.{home}.{name}", name) for name, home in lrp_axioms.HOME.items()
            ]
        for title, names in modules.items():
            lines += [f"## {title}", "", *map(block, names)]
        yield package, "\n".join(lines)


def block(path: str, name: str = "") -> str:
    """Returns a directive for mkdocstrings; ``name`` is its object in ``lrp_axioms``."""
    heading = f"    options: {{heading: lrp_axioms.{name}, toc_label: {name}}}\n" if name else ""
    return f"::: {path}\n{heading}"


class Fields(griffe.Extension):
    """Lines such as ``relevance: (batch, token)`` become a list, and parameters a table."""

    def on_object(self, *, obj, **_):
        if not obj.docstring:
            return
        text = obj.docstring.value
        obj.docstring.value = listed(text)
        if obj.is_function and (rows := [*parameters(obj, text)]):
            obj.docstring.value += FOLDED.format("\n".join([*HEAD, *rows]))


FOLDED = '\n\n<details markdown="1">\n<summary>Parameters</summary>\n\n{}\n\n</details>\n'
HEAD = ["| parameter | type | default | meaning |", "| --- | --- | --- | --- |"]
SHARED = {
    "model": "The model, in eval mode; it is not changed.",
    "tokenizer": "The tokenizer of the model.",
    "inputs": "A batch of the tokenizer, or of an image processor, as in `attribute`.",
    "method": "A name in `METHODS`, or a Composite, as in `attribute`.",
    "target": "The explained output; by default the predicted one.",
    "options": "Options of the method, as in `attribute`.",
    "named": "With `of` and `read`: a tensor and a number of any module.",
    "texts": "A text, a pair, or a list of them.",
    "a": "The first text.",
    "b": "The second text.",
    "path": "The file.",
    "sample": "The number of an example, from 0.",
    "count": "How many to return.",
    "width": "The width of the terminal, in letters.",
    "grid": "Rows and columns of the patches of an image, where they are not known.",
    "unit": 'What relevance is summed to, such as "word" or "sentence".',
    "epsilon": "The ε stabiliser; 0 is the limit.",
    "share": "Where relevance ends, as in `attribute`.",
    "seed": "The seed of random choices.",
    "memory": 'The most bytes of activations, or "auto".',
    "rule": "The rule that is judged.",
}
"""Parameters that mean one thing everywhere, where a docstring does not say more."""

LONGEST = 240  # letters of a sentence in the table; a longer one needs a field of its own


def parameters(function: griffe.Function, text: str) -> Iterator[str]:
    """Yields a line of a table for every parameter that a docstring, or ``SHARED``, describes."""
    for x in function.parameters:
        name, said = x.name, meaning(x.name, text)
        if name not in ("self", "cls") and said:
            own = (x.annotation, None if "variadic" in x.kind.value else x.default)
            kind, default = ("" if y is None else f"`{y}`" for y in own)
            yield f"| `{name}` | {kind} | {default} | {said} |"


def meaning(name: str, text: str) -> str:
    """Returns a parameter's field of a docstring, the first sentence with its name, or neither."""
    for field in re.finditer(r"^((?:\w+, )*\w+): (\S.*(?:\n[ ]+\S.*)*)", text, re.MULTILINE):
        if name in field[1].split(", "):
            return plain(field[2])
    parts = (" ".join(part.split()) for part in text.split("\n\n"))
    sentences = (x for part in parts for x in re.split(r"(?<=[.;])\s+(?=[A-Z`(])", part))
    found = (x for x in sentences if re.search(rf"``{name}\b", x) and len(x) <= LONGEST)
    return plain(next((x for x in found if not x.startswith("Raises")), SHARED.get(name, "")))


def plain(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


FIELD = re.compile(r"^((?:\w+, )*\w+): (?=\S)", re.MULTILINE)


def listed(text: str) -> str:
    """The text with a list where a paragraph begins with ``name: ``, and errors apart."""
    text = text.replace("\nRaises ", "\n\nRaises ")
    return "\n\n".join(map(_as_list_item, text.split("\n\n")))


def _as_list_item(paragraph: str) -> str:
    is_list = FIELD.match(paragraph) and not paragraph.startswith("Raises")
    return FIELD.sub(r"- `\1`: ", paragraph) if is_list else paragraph
