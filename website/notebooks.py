"""Renders the executed notebooks as pages: texts and outputs, with the code folded away."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
from jinja2 import DictLoader
from nbconvert import MarkdownExporter

FOLDER = Path(__file__).resolve().parents[1] / "paper_notebooks"
TEMPLATE = """{% extends "markdown/index.md.j2" %}
{% block input %}

<details class="code" markdown="1"><summary>Code</summary>

{{ super() }}

</details>
{% endblock input %}"""
GALLERY = """# Notebooks

Notebooks for a reader of the paper. Each ends with assertions about its headline. They are
shown as they were executed: nothing is run again for this site, but `make notebooks` does that.

<div class="gallery" markdown="1">
"""


def pages() -> Iterator[tuple[str, str, Mapping[str, bytes]]]:
    """Name, Markdown, and pictures by file name, of every notebook; nothing is executed."""
    exporter = MarkdownExporter(
        extra_loaders=[DictLoader({"folded.md.j2": TEMPLATE})], template_file="folded.md.j2"
    )
    for path in sorted(FOLDER.glob("*.ipynb")):
        found = nbformat.read(path, as_version=4)
        names = {"output_files_dir": path.stem, "unique_key": path.stem}
        text, resources = exporter.from_notebook_node(found, resources=names)
        yield path.stem, text, resources["outputs"]


def gallery(notebooks: Mapping[str, tuple[str, Mapping[str, bytes]]]) -> str:
    """A card for every notebook: its title, its first sentence, and its first picture."""
    return (
        GALLERY + "\n".join(_card(name, *found) for name, found in notebooks.items()) + "\n</div>\n"
    )


def _card(name: str, text: str, pictures: Mapping[str, bytes]) -> str:
    heading, _, rest = text.strip().partition("\n")
    about = rest.strip().split("\n\n")[0].replace("\n", " ")
    picture = f"[![]({next(iter(pictures))})]({name}.md)\n\n" if pictures else ""
    return (
        f'<div class="card" markdown="1">\n\n{picture}**[{heading.lstrip("# ")}]({name}.md)**\n\n'
        f"{about}\n\n</div>"
    )
