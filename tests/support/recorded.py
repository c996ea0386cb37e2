"""Makes the parts of a record; their keys and values name no module.

``tests.support.record`` writes them.  All its imports of the project are here.
"""

import contextlib
import hashlib
import inspect
import json
import re
import shlex
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import torch
import typer
from transformers.utils import logging
from typer.testing import CliRunner

import lrp_axioms
import numeric
from axioms import check, kinds
from axioms.evidence import certificates, counts, statements
from axioms.pages import latex, show
from axioms.pages import scoreboard as markdown
from axioms.rules import propagate
from axioms.scoreboard import scoreboard
from benchmarks.cli import app
from numeric.engine import at_output
from numeric.methods.catalogue import METHODS, table
from numeric.reference import dispatch
from numeric.targets import log_probability
from tests.census import build, measure, operations, page
from tests.support import all_commands
from website import axiom_table, catalogue, literature
from website import theorems as site

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60  # for all calls on an architecture; later calls are recorded as slow
TABLES = {
    "messages": propagate.RULES,
    "lemmas in symbols": {key: sorted(rule.absorbs) for key, rule in propagate.RULES.items()},
    "lemmas in numbers": {key: sorted(rule.absorbs) for key, rule in dispatch.RULES.items()},
    "reference": dispatch.RULES,
    "reference of maps": {
        key: rule for key, rule in dispatch.RULES.items() if rule.on_map is not dispatch.not_on_maps
    },
    "engine at the output": {
        key: rule
        for key, rule in at_output.RULES.items()
        if key[0] not in (kinds.LAYER_NORM, kinds.RMS_NORM, kinds.ACTIVATION)
    },
    "engine of norms": {x: y for x, y in at_output.RULES.items() if x[0] == kinds.LAYER_NORM},
    "engine where held": {x: y for x, y in at_output.RULES.items() if x[0] == kinds.RMS_NORM},
    "engine as a whole": at_output.RULES,
    "vocabulary": {(kind, rule): 0 for kind, rules in kinds.RULES.items() for rule in rules},
    "checker": {(kind, rule): 0 for kind, rules in check.RULES.items() for rule in rules.split()},
}  # by kind and rule
CALLS = {method: (method, {}) for method in METHODS} | {
    "attnlrp at epsilon 1/8": ("attnlrp", {"epsilon": 0.125}),
    "cp-lrp at epsilon 1/8": ("cp-lrp", {"epsilon": 0.125}),
    "cp-lrp of words": ("cp-lrp", {"share": "word"}),
    "attnlrp of positions": ("attnlrp", {"positions": "signed"}),
    "attnlrp with checkpoints": ("attnlrp", {"checkpoint": True}),
}
OTHERS = ("log-probability", "sweep", "plan", "audit at epsilon 1/8")
COMMANDS = (
    *(f"explain embedded 'not a bad film' dull --method {method}" for method in METHODS),
    "explain embedded 'not a bad film' --layers", "explain embedded film --method cplrp",
    "explain embedded 'not a bad film' --target negative --method loo --budget 20",
    "explain embedded-lm 'anna apple bert pen ; anna apple' --span -1:",
    "explain embedded-lm 'add 3 skip 5 add 9 ;' --generate 2 --by word",
    "audit embedded 'not a bad film' --method cp-lrp", "audit embedded-lm 'anna apple bert'",
    "plan embedded", "plan embedded-lm --method cp-lrp", "methods", "vocabulary embedded-lm",
    "attribute texts.txt --method attnlrp --method loo --output maps && attribute --verify maps"
    " && evaluate maps",
    f"prove {ROOT / 'docs' / 'my_rules.py'}",
    *(f"reproduce {table} --examples 2 --workers 1 --output results && report results" for table in
      ("special", "table1", "table2", "figure2", "sensitivity", "softmax", "tradeoff", "causes",
       "patching")),
)  # fmt: skip


def rules(_: object) -> Iterator[tuple]:
    """The rules in all tables, the rules and options of methods, and public names."""
    for name, pairs in TABLES.items():
        for key, value in pairs.items():
            yield f"{name} | {' by '.join(key)}", value if isinstance(value, list) else True
    for name, method in METHODS.items():
        yield from ((f"{name} | option {x}", repr(y)) for x, y in method.options.items())
        if method.composite:
            yield from ((f"{name} | rule of {x}", y) for x, y in method.composite.rules.items())
    for name in lrp_axioms.HOME:
        parameters = inspect.signature(getattr(lrp_axioms, name)).parameters.values()
        shown = ", ".join(str(x.replace(annotation=x.empty)) for x in parameters)
        yield f"numeric.{name}", hide(shown)
    for command in typer.main.get_command(app).commands.values():
        yield from ((f"{command.name} | {x}", True) for y in command.params for x in y.opts)


@cache
def decided() -> tuple[list, list[tuple]]:
    """The verdicts of all theorems; and entries of these, their counts and certificates."""
    decisions: dict[str, list] = {}
    with tempfile.TemporaryDirectory() as folder:
        every = Path(folder, "all")
        verdicts = certificates.certify(folder=every, decisions=decisions)
        found = [(f"certificate {x.stem}", sha(x.read_bytes())) for x in every.iterdir()]
        found += answer("check all", folder)
    said = "verdict", "statement", "given", "scope", "witness", "method", "identities", "points"
    for verdict in verdicts:
        found += [(f"{verdict.label} {name}", getattr(verdict, name)) for name in said]
        found.append((f"{verdict.label} counts", counts.counted(decisions[verdict.test])))
    return verdicts, found


def proofs(_: object) -> list[tuple]:
    return decided()[1]


def pages(_: object) -> Iterator[tuple]:
    """All pages, or the parts of a page that are made."""
    yield "THEOREMS.md", sha(catalogue.page(decided()[0]))
    yield "THEOREMS.md of the site", sha(site.page(decided()[0]))
    yield "OPERATIONS.md", sha(operations.page())
    yield "EXPLAIN.md, methods", sha(table())
    yield "LITERATURE.md", sha(literature.table(literature.published()))
    boards = scoreboard.scoreboard(), scoreboard.on_attention(), scoreboard.on_units()
    for name, cells in zip(("scoreboard", "on_attention", "on_units"), boards, strict=True):
        yield f"SCOREBOARD.md, {name}", sha(markdown.as_markdown(cells))
        yield f"SCOREBOARD.md, {name}, witnesses", sha(markdown.witnesses(cells))
    cells = axiom_table.table(markdown.PAGE.read_text("utf-8"))
    yield from ((f"AXIOMS.md, {x}", sha(made(cells))) for x, made in axiom_table.PARTS.items())


def shown(number: int) -> list[tuple]:
    """The page of a theorem, without its line that names files and functions."""
    found = show.page(str(number))
    forms = {"text": (show.text(found), r"(?=\n\n|\Z)"), "LaTeX": (latex.latex(found), r"\\par}")}
    return [
        (f"theorem {number}, {name}", sha(re.sub(f"(?s)Checked by .*?{end}", "", text)))
        for name, (text, end) in forms.items()
    ]


def census(item: tuple[str, str]) -> list[tuple]:
    """The results of every call on a tiny model with fixed weights, within ``SECONDS``."""
    found = dict.fromkeys((*CALLS, *OTHERS), "slow")
    logging.set_verbosity_error()
    with contextlib.suppress(TimeoutError), measure.limit(SECONDS), build.float64():
        warnings.simplefilter("ignore")
        for name in ["build", *found]:
            torch.manual_seed(0)
            try:
                if name == "build":
                    model = build.build(*item)
                    batch = build.inputs(model, item[1])
                    model(**batch)
                else:
                    found[name] = called(name, model, batch, measure.TARGETS[item[1]])
            except TimeoutError:
                raise
            except Exception as error:  # the code of a model raises any type
                first = re.split(r"[.;:]?\s*\n|[.;] ", str(error))[0]
                found[name] = f"{type(error).__name__}: {hide(first)}"
                if name == "build":
                    found = {name: found[name]}
                    break
    return [(f"{' | '.join(item)} | {name}", value) for name, value in found.items()]


def called(name: str, model: torch.nn.Module, batch: dict, target) -> str:
    """The result of one call as hashes: relevance, and everything else; with the largest value."""
    if name == "plan":
        return sha(str(numeric.plan(model, batch)))
    if name.startswith("audit"):
        one = {key: value[:1] for key, value in batch.items()}
        found = numeric.audit(model, one, target=target, epsilon=0.125)
        causes = dict(sorted(found.by_cause().items()))
        lines = [(x.kind, x.rule) for x in found.ledger.lines]
        said = repr((lines, [*causes], [plain(vars(x)) for x in found.verdicts]))
        amounts = digest([found.logit, *causes.values()])
        return f"{digest(found.relevance)} {amounts} {sha(said)[:20]}"
    if name == "sweep":
        found = numeric.sweep(model, batch, ["attnlrp", "cp-lrp"], target)
    elif name == "log-probability":
        target = log_probability(at=target and measure.PLACE)
        found = numeric.attribute(model, batch, target=target)
    else:
        method, options = CALLS[name]
        found = numeric.attribute(model, batch, method, target, **options)
    more = sorted(getattr(found, "details", {}).items())
    others = [found.logit, found.target, *(x for _, x in more if isinstance(x, torch.Tensor))]
    size = found.relevance.abs().max().item()
    return f"{digest(found.relevance)} {sha(' '.join(map(digest, others)))[:20]} {size:.2e}"


def models(item: tuple[str, str]) -> list[tuple]:
    """The line of MODELS.md."""
    return [(" | ".join(item), hide(page.row(measure.measure(item))))]


def commands(several: str) -> list[tuple]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "texts.txt").write_text("a fine film\ndull and far too long\n")
        return [entry for command in several.split(" && ") for entry in answer(command, folder)]


def answer(command: str, folder: str) -> list[tuple]:
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, [*shlex.split(command), "--json"])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return [*told(hide(command), done.exit_code, done.stdout or done.stderr)]


def told(command: str, end: object, text: str) -> Iterator[tuple]:
    """How a command ends, and every key of the object that it prints; a hash of a long value."""
    yield f"{command} | end", end
    for key, value in plain(json.loads(text) if text[:1] == "{" else {"text": text}).items():
        content = json.dumps(value, sort_keys=True)
        yield f"{command} | {key}", value if len(content) <= 200 else sha(content)


def ends(item: tuple[str, str]) -> list[tuple]:
    """Every command on an architecture."""
    found = all_commands.ends(item).items()
    return [x for name, end in found for x in told(f"{' | '.join(item)} | {name}", *end)]


def sha(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def digest(values) -> str:
    """Numbers in float64, to 10 digits of the largest."""
    x = np.array(values.detach() if isinstance(values, torch.Tensor) else values, np.float64)
    largest = np.abs(x[np.isfinite(x)]).max(initial=0.0) or 1.0
    x = np.where(np.isnan(x), np.nan, np.round(x / largest, 10) + 0.0)
    return sha(f"{x.shape} {largest:.9e}".encode() + x.tobytes())[:20]


def hide(text: str) -> str:
    """The text without addresses, temporary folders, and folders of files of code."""
    text = re.sub(rf"{re.escape(tempfile.gettempdir())}/\w+|0x[0-9a-f]{{6,}}", "...", text)
    return re.sub(r"[\w/.-]+/(?=[\w-]+\.(py|md)\b)", "", text)


def plain(value):
    """Data without times, versions and paths."""
    if isinstance(value, dict):
        left_out = {"version", "versions", "seconds", "wrote"}
        return {str(x): plain(y) for x, y in value.items() if x not in left_out}
    if isinstance(value, list | tuple):
        return [plain(x) for x in value]
    if isinstance(value, float):
        return float(f"{value:.9e}")
    return value if isinstance(value, int | None) else hide(str(value))


def entries(function, item) -> list[tuple]:
    return [*function(item)]


ITEMS = [(name, task) for task in build.TASKS for name in build.architectures(task)]
PARTS = {
    "rules": (rules, [""]),
    "proofs": (proofs, [""]),
    "pages": (pages, [""]),
    "shown": (shown, sorted(statements.table("MEANINGS"))),
    "census": (census, ITEMS),
    "models": (models, ITEMS),
    "commands": (commands, COMMANDS),
    "ends": (ends, all_commands.items()[::25]),
}  # part -> the function that gives its entries for an item, and the items
