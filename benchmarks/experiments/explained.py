"""``attribute``: the relevance of every token of any number of texts, as Parquet."""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from lrp_axioms import attribute
from lrp_axioms.benchmarks.experiments import text
from lrp_axioms.benchmarks.experiments.rows import Row
from lrp_axioms.benchmarks.running import blocks, runner
from lrp_axioms.benchmarks.running.manifest import Manifest
from lrp_axioms.benchmarks.running.workers import IN_PROCESS, Engine, Track, untracked
from lrp_axioms.benchmarks.sources.data import unlabelled
from lrp_axioms.benchmarks.sources.faults import sound
from lrp_axioms.benchmarks.sources.models import Classifier
from lrp_axioms.numeric.methods import amplification
from lrp_axioms.numeric.methods.catalogue import METHODS, WITH_LEMMAS
from lrp_axioms.numeric.methods.mask_relevance import GRADIENTS

CUT = "texts that fill all positions"
AMPLIFIED = "amplified"  # column, and the number of lines where it is true


def explain_texts(
    classifier: Classifier,
    texts: Iterable[str],
    *,
    methods: Sequence[str] = ("attnlrp",),
    name: str,
    output: Path,
    engine: Engine = IN_PROCESS,
    track: Track = untracked,
) -> Manifest:
    """Explains the predicted class of each text by each method, in one line of Parquet.

    ``texts`` are read in blocks as workers become free, and never held as a whole; ``name`` is
    their source.  ``output``: the folder; a stopped run resumes there.  Lines are ordered by text,
    then by method (``explain_block``); column ``amplified`` is True where rules amplify relevance
    (``lrp_axioms.numeric.methods.amplification``).
    Raises ValueError for a text that cannot be explained, and RunError for a folder of other texts.
    """
    if isinstance(texts, str) or isinstance(methods, str) or not methods:
        raise ValueError("texts and methods are lists; pass ['a fine film'] and ['attnlrp']")
    texts = sound(texts, name, unit="text", advice="leave out what is no text")
    row = Row(
        name=output.name,
        table="attribute",
        dataset=name,
        model=classifier.name,
        curves=False,
        dtype=str(classifier.model.dtype).removeprefix("torch."),
        variants={method: {"method": method} for method in methods},
    )
    sizes = blocks.rows(classifier.model.num_parameters())
    divided = blocks.blocks(texts, *sizes)
    first = next(divided, None)
    if first is None:
        raise ValueError(f"{name} has no records; pass a file that has some")
    with amplification.left_out():
        text.check(classifier, unlabelled(name, first.content), [row])
    classifier = text.placed(classifier, row, engine)
    beyond = [amplification.BESIDE_LOGIT, amplification.BESIDE_GRADIENT, amplification.BESIDE_HELD]
    about = text.of_model(classifier, engine) | {
        "block": [*sizes, blocks.LETTERS],
        "batch": [*text.SHARD],
        "padding": text.PADDED,
        "amplified_beyond": beyond,
    }
    most = about["tokens_at_most"]
    return runner.run(
        output,
        row.record() | about,
        chain([first], divided),
        partial(explain_block, row, classifier, about["device"]),
        tally=partial(_tally, most),
        engine=engine,
        track=track,
    )


def explain_block(row: Row, classifier: Classifier, place: str, block: blocks.Block) -> pa.Table:
    """Computes ``text.maps`` of a block, beside its texts and their tokens."""
    classifier.model.to(place)
    data = text.read(classifier, unlabelled(row.dataset, block.content), first=block.first)
    tables, spelling = [], cache(classifier.tokenizer.convert_ids_to_tokens)
    for shard in text.shards(classifier, data):
        try:
            with amplification.left_out():  # _amplified decides
                columns = text.maps(row, classifier, data, shard)
        except ValueError as error:
            wrong = [n for n in shard if _fails(row, classifier, data, n)] or shard
            places = ", ".join(str(block.first + n + 1) for n in wrong)
            raise ValueError(f"{error} (of texts {places})") from error
        del columns["label"]
        columns = {"method": columns.pop("variant")} | columns
        names = [[spelling(x) for x in data.tokens[n]["input_ids"]] for n in shard]
        columns["text"] = [data.texts[n] for n in shard] * len(row.variants)
        columns["token"] = names * len(row.variants)
        tables.append(pa.table(columns))
    table = pa.concat_tables(tables)
    table = table.append_column(AMPLIFIED, [_amplified(row, classifier, data, table)])
    examples = table["example"].to_numpy()
    table = table.take(np.argsort(examples, kind="stable"))
    numbers = pc.add(table["example"], block.first)
    return table.set_column(table.column_names.index("example"), "example", numbers)


@amplification.left_out()
def _amplified(row, classifier, data, table):
    """Decides for each line whether rules amplify its relevance.

    Few texts of a block are in doubt, so that the gradients of all these take few passes.
    """
    pairs = zip(table["method"].to_pylist(), table["example"].to_pylist(), strict=True)
    lines = {pair: n for n, pair in enumerate(pairs)}
    sizes = torch.tensor([np.abs(x).sum() for x in table["relevance"].to_numpy()])[:, None]
    logits, targets = (torch.tensor(table[key].to_numpy()) for key in ("logit", "target"))
    found = torch.zeros(len(lines), dtype=torch.bool)
    rules = {method: METHODS[method].composite for method in row.variants if method in WITH_LEMMAS}
    beyond = amplification.beside_logit(sizes, logits)
    doubtful = sorted({n for (method, n), at in lines.items() if method in rules and beyond[at]})
    for shard in text.shards(classifier, data, doubtful):
        at = {method: [lines[method, n] for n in shard] for method in rules}
        target = targets[next(iter(at.values()))]  # all methods explain one prediction
        known = cache(partial(_gradient_sizes, classifier, data, shard, target))
        for method, composite in rules.items():
            given = sizes[at[method]], logits[at[method]]
            found[at[method]] = amplification.amplified_rows(composite, *given, known)
    return pa.array(found.numpy())


def _gradient_sizes(classifier, data, shard, target, held):
    """Sums |gradient x input| of each text, with norms held or not; None without a gradient."""
    inputs, _ = text.in_batch(classifier, data, shard)
    try:
        found = attribute(classifier.model, inputs, GRADIENTS["held" if held else "true"], target)
    except amplification.FULL:
        raise
    except amplification.NO_GRADIENT:
        return None
    return found.relevance.abs().sum(dim=1).cpu()


@amplification.left_out()
def _fails(row, classifier, data, n):
    """Whether a text alone cannot be explained."""
    try:
        text.maps(row, classifier, data, [n])
    except ValueError:
        return True
    return False


def _tally(most, table):
    methods = len(pc.unique(table["method"]))
    full = pc.sum(pc.equal(table["tokens"], most)).as_py()
    return {CUT: full // methods, AMPLIFIED: pc.sum(table[AMPLIFIED]).as_py()}
