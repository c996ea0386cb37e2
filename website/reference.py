"""The reference of public names, as pages for mkdocstrings, which reads their docstrings."""

import re

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
