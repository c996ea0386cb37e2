"""The reference of public names, as pages for mkdocstrings, which reads their docstrings."""

import re

import griffe

import numeric

MODULES = {
    "numeric": {
        "What is explained": ["numeric.targets"],
        "Composites of rules": ["axioms.composites"],
        "Inside other tools": [
            "numeric.tools.pipelines",
            "numeric.tools.captum",
            "numeric.tools.inseq",
            "numeric.tools.quantus",
        ],
    },
    "axioms": {
        "Rules of your own": ["axioms.own_rules", "axioms"],
        "Deciding real numbers": ["axioms.decide.reals", "axioms.decide.equality"],
        "Rules and their kinds": [
            "axioms.kinds",
            "axioms.rules.rule",
            "axioms.rules.linear",
            "axioms.rules.products",
            "axioms.rules.attention",
            "axioms.rules.norms",
            "axioms.rules.activations",
            "axioms.composites",
        ],
        "Graphs and propagation": [
            "axioms.graph",
            "axioms.rules.propagate",
            "axioms.rules.effects",
        ],
        "Deciding statements": [
            "axioms.decide.identity",
            "axioms.evidence.prove",
            "axioms.pages.show",
            "axioms.evidence.statements",
        ],
        "Rewrites": [
            "axioms.rewrites.rewrite",
            "axioms.rewrites.rewrites",
            "axioms.rewrites.canonizers",
            "axioms.scoreboard.rule_sets",
            "axioms.scoreboard.scoreboard",
            "axioms.scoreboard.witness",
        ],
        "Accounts of relevance": ["axioms.rules.ledger", "axioms.audit"],
    },
}
"""Public modules by package, in the order of the pages."""

ABOUT = {
    "numeric": "What is computed. These names are imported from `numeric` itself.",
    "axioms": "What is true of propagation rules. Nothing here needs PyTorch.",
}


def pages():
    """Name and Markdown of the page of every package."""
    for package, modules in MODULES.items():
        lines = [f"# {package}", "", ABOUT[package], ""]
        if package == "numeric":
            lines += ["## Functions and results", ""]
            lines += [block(f"{home}.{name}", name) for name, home in numeric._HOME.items()]
        for title, names in modules.items():
            lines += [f"## {title}", "", *map(block, names)]
        yield package, "\n".join(lines)


def block(path: str, name: str = "") -> str:
    """Returns a directive for mkdocstrings; ``name`` is the name of the object in ``numeric``."""
    heading = f"    options: {{heading: numeric.{name}, toc_label: {name}}}\n" if name else ""
    return f"::: {path}\n{heading}"


class Fields(griffe.Extension):
    """Lines such as ``relevance: (batch, token)`` of a docstring become a list."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = listed(obj.docstring.value)


FIELD = re.compile(r"^((?:\w+, )*\w+): (?=\S)", re.MULTILINE)


def listed(text: str) -> str:
    """The text with a list where a paragraph begins with ``name: ``, and errors apart."""
    text = text.replace("\nRaises ", "\n\nRaises ")
    return "\n\n".join(map(_as_list_item, text.split("\n\n")))


def _as_list_item(paragraph: str) -> str:
    is_list = FIELD.match(paragraph) and not paragraph.startswith("Raises")
    return FIELD.sub(r"- `\1`: ", paragraph) if is_list else paragraph
