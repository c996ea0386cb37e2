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
        "Deciding real numbers": ["axioms.solver.reals", "axioms.solver.equality"],
        "Rules and their kinds": [
            "axioms.kinds",
            "axioms.algebra.rules",
            "axioms.algebra.norms",
            "axioms.composites",
        ],
        "Graphs and propagation": [
            "axioms.graph",
            "axioms.algebra.propagate",
            "axioms.algebra.leave_one_out",
        ],
        "Deciding statements": [
            "axioms.algebra.decide",
            "axioms.proofs.prove",
            "axioms.proofs.show",
            "axioms.proofs.meanings",
        ],
        "Rewrites": [
            "axioms.invariance.rewrites",
            "axioms.invariance.canonizers",
            "axioms.invariance.rule_sets",
            "axioms.invariance.scoreboard",
            "axioms.invariance.witness",
        ],
        "Accounts of relevance": ["axioms.algebra.ledger", "axioms.audit"],
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
    """What mkdocstrings reads; a ``name`` is that under which ``numeric`` has it."""
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
    return "\n\n".join(map(_listed, text.split("\n\n")))


def _listed(paragraph: str) -> str:
    is_list = FIELD.match(paragraph) and not paragraph.startswith("Raises")
    return FIELD.sub(r"- `\1`: ", paragraph) if is_list else paragraph
