"""All results as one self-contained HTML page."""

import base64
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from lrp_axioms.axioms.writing import remove_drafts, write_atomically
from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.benchmarks.experiments import tables
from lrp_axioms.benchmarks.experiments.record import experiment
from lrp_axioms.benchmarks.experiments.result import Result, read
from lrp_axioms.benchmarks.names import EXPERIMENTS
from lrp_axioms.benchmarks.running import folders
from lrp_axioms.benchmarks.running.provenance import provenance
from lrp_axioms.numeric.results.render import fixed
from lrp_axioms.numeric.spelling import printable

log = logging.getLogger(__name__)

BLOCKS = {"trim_blocks": True, "lstrip_blocks": True}
TEMPLATES = Environment(autoescape=True, undefined=StrictUndefined, **BLOCKS)
SOURCE = (Path(__file__).parents[1] / "assets" / "report.html.j2").read_text("utf-8")
TITLE = re.search("<title>.*</title>", SOURCE)[0]
PAGES = "report.html", "report.md"


def load(folder: Path) -> list[Result]:
    """Reads all results in a folder and the folders in it, in the order of the paper.

    Results are files named after their table, such as table2-sst2.json; the log names
    others.  Raises RunError for one that is broken, and for a report that no run wrote, which the
    next one would replace.
    """
    there = [path for path in map(folder.joinpath, PAGES) if path.exists()]
    if others := [str(path) for path in there if not _is_own(path.read_text("utf-8", "replace"))]:
        raise RunError(
            f"no run wrote {', '.join(others)}, and the report would replace it; move it away, or "
            "pass another folder"
        )
    order = list(EXPERIMENTS)
    named = re.compile(rf"({'|'.join(order)})(-.*)?")
    results = []
    for path in sorted(folder.rglob("*.json")):
        if named.fullmatch(path.stem):
            results.append(replace(read(path), name=path.stem))
            if results[-1].table not in order:
                raise RunError(
                    f"{path} is no result of this program (table {results[-1].table!r}); remove "
                    "it, or run the experiment again"
                )
        elif path.name not in (folders.RECORD, folders.MANIFEST):
            log.info("%s is left out: no result has such a name", path)
    return sorted(results, key=lambda result: (order.index(result.table), result.name))


def _is_own(page: str) -> bool:
    return page.startswith("### ") or TITLE in page[:1000]


def write(folder: Path) -> list[Path]:
    """Writes report.html and report.md of all results in ``folder``, and returns their paths.

    Raises RunError if there is none, and for one that cannot be shown.
    """
    remove_drafts(folder)
    sections = [_section(result) for result in load(folder)]
    if not sections:
        raise RunError(f"{folder} holds no results; run `lrp-axioms reproduce` first")
    for name, content in zip(PAGES, (render(sections), markdown(sections)), strict=True):
        write_atomically(folder / name, printable(content).encode())
    return [folder / name for name in PAGES]


def _section(result):
    """Returns the parts of a result that the page shows."""
    # matplotlib, which a broken folder does not need
    from lrp_axioms.benchmarks.experiments import drawing

    record = experiment(result.table)
    try:
        headers, rows = tables.cells(result)
        image = drawing.png(result)
        return {
            "result": result,
            "columns": list(zip(headers, tables.numeric(rows, len(headers)), strict=True)),
            "rows": rows,
            "image": image and base64.b64encode(image).decode(),
            "markdown": [tables.markdown(result)] if record.in_markdown else [],
            "summary": list(record.summary(result)),
        }
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            f"{result.name}.json has rows of another kind ({type(error).__name__}: {error}); "
            "remove it, or run the experiment again"
        ) from error


def markdown(sections: Sequence[dict]) -> str:
    """Renders all tables and findings but the list of theorems, for a README."""
    parts = []
    for section in sections:
        result = section["result"]
        parts += [f"### {tables.escaped(result.title)}", *section["markdown"]]
        if result.notes:
            parts.append("\n".join(f"- {tables.escaped(note)}" for note in result.notes))
    return "\n\n".join(parts) + "\n"


def render(sections: Sequence[dict]) -> str:
    """Renders the page: summary, every table and figure with its settings, theorems last."""
    template = TEMPLATES.from_string(SOURCE)
    summary = [line for section in sections for line in section["summary"]]
    sections = sorted(sections, key=lambda section: section["result"].table == "theorems")
    facts = {"sections": sections, "summary": summary, "provenance": provenance()}
    return template.render(**fixed(SOURCE), **facts)
