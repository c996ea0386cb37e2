"""Hooks of MkDocs: pages that are made from the project itself, and links that leave ``docs``."""

import re
from pathlib import Path

from mkdocs.structure.files import File

from website import notebooks, reference, theorems
from website.theorems import decided

ROOT = Path(__file__).resolve().parents[1]
COPIED = {
    "benchmarks/RESULTS.md": "RESULTS.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "benchmarks/assets/README.md": "ASSETS.md",
}
"""Pages that lie elsewhere in the repository, and where they are on the site."""


def on_config(config):
    """Links the layers where their docstrings are read, as ``make lint`` does for types."""
    place = ROOT / "build" / "types" / "lrp_axioms"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("axioms", "numeric", "lrp_axioms/__init__.py"):
        link = place / Path(name).name
        link.unlink(missing_ok=True)
        link.symlink_to(ROOT / name)
    return config


def on_files(files, config):
    """Adds every page that is made, in the place of one that is written."""
    for path, content in made():
        if written := files.get_file_from_path(path):
            files.remove(written)
        files.append(File.generated(config, path, content=content))
    return files


def made():
    """Path and content of every page, and picture, that is not as in ``docs``."""
    for source, path in COPIED.items():
        yield path, (ROOT / source).read_text("utf-8")
    yield "THEOREMS.md", theorems.page(decided())
    for name, text in reference.pages():
        yield f"reference/{name}.md", text
    found = {name: (text, pictures) for name, text, pictures in notebooks.pages()}
    yield "notebooks/index.md", notebooks.gallery(found)
    for name, (text, pictures) in found.items():
        yield f"notebooks/{name}.md", text
        for picture, content in pictures.items():
            yield f"notebooks/{picture}", content


def on_page_markdown(markdown, page, files, **_):
    """Links into the repository lead to pages of the site, and have the titles of these."""

    def link(found):
        text, target = found["text"], moved(found["target"], page.file.src_uri)
        if text.endswith(".md") and (file := files.get_file_from_path(target)):
            text = title(file.content_string)
        return f"[{text}]({target})"

    found = re.sub(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s]+)\)", link, markdown)
    return folded(found)


ROWS = 12
LONG = re.compile(rf"^(?:(?:\||\d+\. ).*\n){{{ROWS + 3},}}", re.MULTILINE)
FOLDED = '<details markdown="1">\n<summary>{rows} rows</summary>\n\n{found}\n</details>\n'


def folded(markdown: str) -> str:
    """Folds every long table and numbered list, so that a reader sees the sections first."""

    def fold(found: re.Match) -> str:
        heading = 2 if found[0].startswith("|") else 0
        return FOLDED.format(rows=found[0].count("\n") - heading, found=found[0])

    return LONG.sub(fold, markdown)


def title(markdown: str) -> str:
    return re.search(r"^# (.+)$", markdown, re.MULTILINE)[1]


def moved(link: str, page: str) -> str:
    """A link as the site has it: pages of the repository, and of docs from outside of docs."""
    here = next((source for source, path in COPIED.items() if path == page), f"docs/{page}")
    if re.match(r"[a-z]+:|#", link) or page.startswith("notebooks/"):
        return link
    target, mark, anchor = link.partition("#")
    target = (ROOT / here).parent.joinpath(target).resolve().relative_to(ROOT).as_posix()
    target = "notebooks/index.md" if target == "paper_notebooks" else COPIED.get(target, target)
    return target.removeprefix("docs/") + mark + anchor
