"""Makes the notebooks from ``sources`` and runs them: ``python -m paper_notebooks.build``.

A source is a Python file of cells, `# %%` or `# %% [markdown]`.  A notebook is written only if
all its cells, and so its closing assertion, passed; else its outputs are kept beside the results.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import v4

from axioms.writing import write_atomically
from paper_notebooks import settings

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "sources"
CELL = re.compile(r"^# %%( \[markdown\])?\n(.*?)(?=^# %%|\Z)", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|work|opt|usr|var|Users|mnt)/\S*")
RUN = 7  # words in a row that count as a quotation
QUIET = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "PYTHONWARNINGS": "ignore:IProgress not found",  # tqdm misses a widget that nobody would see
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
"""A notebook shows results, not the progress of libraries."""


class BuildError(Exception):
    """Names a notebook that was not written, the cell, and the error."""


def names() -> list[str]:
    return [path.stem for path in sorted(SOURCES.glob("*.py"))]


def notebook(source: Path):
    """Makes the notebook of a source, without outputs; equal sources give equal notebooks."""
    cells = []
    for n, (is_text, body) in enumerate(CELL.findall(source.read_text(encoding="utf-8"))):
        make = v4.new_markdown_cell if is_text else v4.new_code_cell
        body = re.sub(r"^# ?", "", body, flags=re.MULTILINE) if is_text else body
        cells.append(make(body.strip(), id=f"cell-{n:02d}"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def execute(made, name: str, chosen: settings.Settings, *, timeout: int) -> None:
    """Runs all cells in the repository's folder; BuildError names the cell that fails."""
    client = NotebookClient(
        made,
        timeout=timeout,
        kernel_name="python3",
        resources={"metadata": {"path": str(settings.ROOT)}},
        extra_arguments=["--log-level=ERROR"],  # not that its sockets are local
        record_timing=False,
    )
    try:
        client.execute(env={**os.environ, **QUIET, **chosen.environment()})
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        cell = next(
            (n for n, c in reversed([*enumerate(made.cells)]) if c.get("execution_count")), 0
        )
        short = f"{error.ename}: {error.evalue}" if hasattr(error, "ename") else str(error)
        raise BuildError(f"{name}, cell {cell}: {short}") from error
    sizes: dict[str, int] = {}
    for _, output in outputs(made):
        sizes |= output.get("metadata", {}).get("measured", {})
    made.metadata["measured"] = sizes | {"reduced": chosen.reduced}


def outputs(made) -> Iterator[tuple[int, dict]]:
    """Yields every output with the number of its cell."""
    for n, cell in enumerate(made.cells):
        for output in cell.get("outputs", ()):
            yield n, output


def texts_of(output: dict) -> str:
    """All that an output says in words."""
    data = output.get("data", {})
    shown = [value for kind, value in data.items() if kind.startswith("text/")]
    return "\n".join([output.get("text", ""), *shown, *output.get("traceback", ())])


def problems(made, texts: Iterable[str] = ()) -> Iterator[str]:
    """Yields problems of a notebook: errors, warnings, paths of this machine, quoted texts."""
    quoted = {run for text in texts for run in _runs(text)}
    for n, output in outputs(made):
        if output.output_type == "error" or output.get("name") == "stderr":
            yield f"cell {n} shows an error or a warning: {texts_of(output)[:400]}"
        if found := PLACE.search(texts_of(output)):
            yield f"cell {n} shows a place on this machine: {found.group()}"
        plain = re.sub(r"<[^>]*>", " ", texts_of(output))
        if found := quoted.intersection(_runs(plain)):
            yield f"cell {n} quotes the data set: {min(found)!r}"


def _runs(text: str) -> set[str]:
    """Returns all runs of ``RUN`` words in a text."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {" ".join(words[n : n + RUN]) for n in range(len(words) - RUN + 1)}


def build(name: str, chosen: settings.Settings, *, output: Path, timeout: int) -> Path:
    """Executes and writes one notebook; BuildError names the fault, and the file of outputs."""
    made = notebook(SOURCES / f"{name}.py")
    try:
        execute(made, name, chosen, timeout=timeout)
        used = [dataset for dataset in ("sst2", "imdb") if dataset in made.metadata["measured"]]
        texts = [text for dataset in used for text in settings.texts(chosen, dataset).texts]
        if found := list(problems(made, texts)):
            raise BuildError("\n".join(f"{name}, {problem}" for problem in found))
    except BuildError as error:
        kept = _write(made, Path(chosen.results) / f"{name}.failed.ipynb")
        raise BuildError(f"{error}\nWhat it showed until then: {kept}") from error
    return _write(made, output / f"{name}.ipynb")


def _write(made, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (nbformat.writes(made).rstrip("\n") + "\n").encode())
    return path


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 if all notebooks were written; else prints the failed ones, with the cell."""
    parser = argparse.ArgumentParser(prog="paper_notebooks.build", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"some of {', '.join(names())}; default: all")
    add("--data-dir", type=Path, help="sst2, imdb and mnist from this folder, not from the Hub")
    add("--sst-model", help="a folder or Hub id; default: the paper's")
    add("--imdb-model", help="a folder or Hub id; default: the paper's")
    add("--judges", action="append", metavar="MODEL", help="a classifier of SST-2; may be repeated")
    add("--results", type=Path, help="folder of runs: sst2, imdb, mnist; complete ones are read")
    add(
        "--examples",
        action="append",
        default=[],
        metavar="DATASET=N",
        help="sst2=100; may be repeated",
    )
    add("--reduced", action="store_true", help="a short run that tests the road, not the claims")
    add("--output", type=Path, default=HERE, help="where the notebooks are written")
    add("--timeout", type=int, default=12 * 3600, help="seconds for one cell")
    given = parser.parse_args(arguments)
    faults = []
    if unknown := [name for name in given.names if name not in names()]:
        faults.append(f"{', '.join(unknown)}: pass NAME of {', '.join(names())}")
    if wrong := [x for x in given.examples if not re.fullmatch(r"(sst2|imdb)=[1-9]\d*", x)]:
        faults.append(f"--examples {', '.join(wrong)}: pass sst2=N or imdb=N, with N from 1")
    if faults:
        parser.error("; ".join(faults))
    failed = []
    for name in given.names or names():
        try:
            path = build(name, _settings(given), output=given.output, timeout=given.timeout)
            print(f"wrote {path}", flush=True)
        except BuildError as error:
            failed.append(name)
            print(f"not written: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _settings(given) -> settings.Settings:
    """The options that were given; the others keep their defaults."""
    models = {"sst2": given.sst_model, "imdb": given.imdb_model}
    examples = (one.split("=") for one in given.examples)
    chosen = {
        "data_dir": given.data_dir and str(given.data_dir.resolve()),
        "results": given.results and str(given.results.resolve()),
        "models": {dataset: name for dataset, name in models.items() if name},
        "judges": given.judges,
        "examples": {dataset: int(n) for dataset, n in examples},
    }
    return settings.Settings(**{k: v for k, v in chosen.items() if v}, reduced=given.reduced)


if __name__ == "__main__":
    sys.exit(main())
