"""Measures a row of the text experiments: relevance maps and perturbation curves, per text.

Only maps are stored; every statistic is computed from them afterwards (``maps``).
"""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from lrp_axioms import Attribution, attribute
from lrp_axioms.axioms.composites import Composite, UnassignedOperation
from lrp_axioms.benchmarks.experiments.batches import divided, naming
from lrp_axioms.benchmarks.experiments.maps import GAP, Run
from lrp_axioms.benchmarks.experiments.record import experiment
from lrp_axioms.benchmarks.experiments.rows import MASK, Row, Variant
from lrp_axioms.benchmarks.names import ON_TEXTS
from lrp_axioms.benchmarks.running import runner
from lrp_axioms.benchmarks.running.blocks import block
from lrp_axioms.benchmarks.running.timing import alternate, one_thread
from lrp_axioms.benchmarks.running.workers import IN_PROCESS, Engine, Track, untracked
from lrp_axioms.benchmarks.sources.data import Texts
from lrp_axioms.benchmarks.sources.models import Classifier
from lrp_axioms.benchmarks.sources.tokens import Read
from lrp_axioms.numeric.evaluation.perturbation import ORDERS, perturbation_curves
from lrp_axioms.numeric.layer_mixes import sweep
from lrp_axioms.numeric.methods import amplification
from lrp_axioms.numeric.methods.loo import in_dtype
from lrp_axioms.numeric.methods.padding import is_as_alone
from lrp_axioms.numeric.models.facts import facts_of, reads_end
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.texts import is_doubled

SHARD = 256, 4096, 64  # a batch has at most so many texts, tokens, and tokens of padding
PADDED = "where it changes no logits"  # whether a batch has padding
FEW = 3  # words of the text that tries a row


@one_thread()  # with a few words, threads wait for each other more than they compute
def check(classifier: Classifier, data: Texts, needed: Sequence[Row] = ()) -> dict[str, float]:
    """Explains the first text, to refuse a model before long runs.

    Measures ``needed`` rows on its first words, without curves.
    Returns name of a row -> its time there, in forward passes.
    Raises ValueError or UnassignedOperation, as ``attribute`` does.
    """
    if classifier.explains not in ("class", "next token"):
        raise ValueError(
            f"model {classifier.name!r} predicts the {classifier.explains}; pass a classifier of "
            "texts or a causal language model, or explain single texts"
        )
    attribute(classifier.model, in_batch(classifier, data, [0])[0])
    few = " ".join(data.texts[0].split(maxsplit=FEW)[:FEW])
    if is_doubled(classifier.tokenizer, few):  # such as "good film [SEP]"
        few = data.texts[0]
    start = replace(data, texts=(few,), labels=data.labels[:1])
    first, _ = in_batch(classifier, start, [0])
    inputs = prepare(classifier.model, first).arguments()
    clock = time.perf_counter if sys.platform == "win32" else time.process_time  # ticks of 1/64 s
    timed = partial(alternate, clock=clock, device=classifier.model.device, warm_up=0)
    forward = torch.inference_mode()(partial(classifier.model, **inputs))
    one_pass = min(timed({"forward": forward}, repeats=3)["forward"])
    passes = {}
    for row in needed:
        measured_in = _in_dtype(classifier, row.dtype)
        trial = partial(measure_of(row), replace(row, curves=False), measured_in, start, [0])
        try:
            passes[row.name] = timed({"row": trial}, repeats=1)["row"][0] / one_pass
        except (ValueError, UnassignedOperation) as error:
            if row.table == "attribute":
                raise
            raise ValueError(f"leave out {row.name}, which cannot be measured: {error}") from error
    return passes


def run(
    row: Row,
    classifier: Classifier,
    data: Texts,
    *,
    output: Path,
    engine: Engine = IN_PROCESS,
    track: Track = untracked,
) -> Run:
    """Measures a row on a model and a data set, or resumes it in ``output``.

    ``engine``: the processes; the record has the device of its workers.
    Raises ValueError for a folder of another configuration, for a broken part, and for a model on
    a GPU, which cannot be sent to workers.
    """
    classifier = placed(classifier, row, engine)
    data = data.first(row.examples)
    about = settings(classifier, data, engine)
    measured = partial(_measured, measure_of(row), row, classifier, data, about["device"])
    manifest = runner.run(
        output / row.name,
        row.record() | about | {"batch": [*SHARD], "padding": PADDED},
        _in_blocks(classifier, data),
        measured,
        engine=engine,
        track=track,
    )
    table, commits = runner.read(manifest), manifest.commits()
    return Run(row=row, settings=about, table=table, chunk=data.chunk, commits=commits)


def placed(classifier: Classifier, row: Row, engine: Engine) -> Classifier:
    """Returns the classifier in a row's dtype; ValueError if workers cannot get it from a GPU."""
    here = classifier.model.device
    if engine.device and here.type != "cpu":
        raise ValueError(
            f"the model is on {here}, from where workers elsewhere cannot get it; load it with "
            f"device='cpu', and each worker moves it to {engine.device}"
        )
    return _in_dtype(classifier, row.dtype)


def _in_blocks(classifier, data):
    """Returns a block per shard; a shard is a list of the numbers of texts."""
    found = shards(classifier, data)
    firsts = accumulate(map(len, found), initial=0)
    return [block(first, shard) for first, shard in zip(firsts, found, strict=False)]


def _measured(measure, row, classifier, data, place, of_shard):
    shard = of_shard.content
    classifier.model.to(place)  # in a worker, which has a copy of its own
    with naming([str(n + 1) for n in shard]):
        return measure(row, classifier, data, shard)


def settings(classifier: Classifier, data: Texts, engine: Engine = IN_PROCESS) -> dict:
    """Returns the settings of model and data that determine the numbers of an experiment."""
    origin = {"dataset_origin": data.origin, "dataset_sha256": data.sha256}
    of_data = {"dataset": data.name} | origin | {"examples": len(data.texts)}
    return of_model(classifier, engine) | of_data


def of_model(classifier: Classifier, engine: Engine = IN_PROCESS) -> dict:
    """Returns the settings of a model and its device that determine numbers."""
    return classifier.about() | {
        "tokens_at_most": limit(classifier.model),
        "device": engine.device or str(classifier.model.device),
        "dtype": str(classifier.model.dtype),
    }


def shards(
    classifier: Classifier, data: Texts, numbers: Iterable[int] | None = None
) -> list[list[int]]:
    """Sorts the ``numbers`` of texts, or all, by length, so that little of a batch is padding.

    Two texts are tried first: where padding changes logits, only texts of one length share a
    batch; and where these change each other's logits, or are refused, each has its own.
    """
    data = read(classifier, data)
    lengths = [len(each["input_ids"]) for each in data.tokens]
    order = sorted(range(len(lengths)) if numbers is None else numbers, key=lengths.__getitem__)
    found = divided(order, lengths, *SHARD)
    tried = partial(
        is_as_alone, classifier.model, lambda shard: in_batch(classifier, data, shard)[0]
    )
    if padded := [x for x in found if lengths[x[0]] < lengths[x[-1]]]:
        widest = max(padded, key=lambda x: lengths[x[-1]] - lengths[x[0]])
        if tried(widest[0], widest[-1]):
            return found
        texts, tokens, _ = SHARD
        found = divided(order, lengths, texts, tokens, 0)
    several = next((x for x in found if len(x) > 1), None)
    apart = several and not tried(*several[:2])
    return [[n] for n in order] if apart else found


def maps(row: Row, classifier: Classifier, data: Texts, shard: Sequence[int]) -> dict[str, list]:
    """Explains the predicted class, or next token, by every variant, with its curves."""
    model = classifier.model
    inputs, special = in_batch(classifier, data, shard)
    variants = row.composites(facts_of(model).layers)
    if row.sweep:
        target, found = _explain_mixes(model, inputs, [v.method for v in variants.values()])
    else:
        target, found = None, []
        for variant in variants.values():  # the first one predicts
            found.append(_explain(classifier, inputs, target, variant))
            target = found[0].target
    present = inputs.get("attention_mask", torch.ones_like(special)) == 1
    rows = lambda x: [line[p].tolist() for line, p in zip(x.cpu(), present, strict=True)]
    lengths = present.sum(dim=1).tolist()
    columns: dict[str, list] = {
        "variant": [label for label in variants for _ in shard],
        "example": list(shard) * len(variants),
        "label": [data.labels[n] for n in shard] * len(variants),
        "tokens": lengths * len(variants),
        "target": target.tolist() * len(variants),
        "logit": [value for a in found for value in a.logit.tolist()],
        "residual": [value for a in found for value in a.residual.tolist()],
        "relevance": [line for a in found for line in rows(a.relevance)],
        "content": rows(~special) * len(variants),
    }
    if any(GAP in a.details for a in found):
        undefined = torch.full(target.shape, torch.nan)
        columns[GAP] = [gap for a in found for gap in a.details.get(GAP, undefined).tolist()]
    if row.curves:
        relevances = [a.relevance for a in found]
        first = [next(n for n, x in enumerate(relevances) if x.equal(r)) for r in relevances]
        places = sorted(set(first))  # some methods have one map
        unequal = [relevances[n] for n in places]
        batch = prepare(model, inputs)
        found_curves = perturbation_curves(model, batch, unequal, target, chunk=data.chunk)
        curves = [found_curves[places.index(n)] for n in first]
        for n, order in enumerate(ORDERS):
            for key in ("mean", "aopc"):
                values = [v for of_map in curves for v in getattr(of_map[n], key).tolist()]
                columns[f"{order} {key}"] = values
    return columns


def measure_of(row: Row) -> Callable[..., dict[str, list]]:
    """Returns the function that measures a shard: ``maps``, unless the row's table has its own."""
    own = experiment(row.table).measure if row.table in ON_TEXTS else None
    return own or maps


def _in_dtype(classifier, dtype):
    if classifier.model.dtype == getattr(torch, dtype):
        return classifier
    return replace(classifier, model=in_dtype(classifier.model, dtype))


def _explain(classifier: Classifier, inputs, target, variant: Variant) -> Attribution:
    model, options = classifier.model, dict(variant.options)
    if options.get("removal") == MASK:
        options["removal"] = classifier.tokenizer.mask_token_id
    # Rows compare rules, amplifying ones among them.
    with amplification.left_out() if isinstance(variant.method, Composite) else nullcontext():
        found = attribute(model, inputs, variant.method, target, **options)
    if not variant.contrast:
        return found
    if (count := model.config.num_labels if classifier.explains == "class" else 0) != 2:
        raise ValueError(f"contrast needs two classes; this model has {count}")
    other = attribute(model, inputs, variant.method, 1 - found.target, **options)
    parts = ("relevance", "logit", "residual")
    less = {key: getattr(found, key) - getattr(other, key) for key in parts}
    return Attribution(**vars(found) | less | {"details": {}})


def _explain_mixes(model, inputs, composites) -> tuple[Tensor, list[Attribution]]:
    """Returns the predicted targets, and the results of ``attribute`` for all composites.

    All come from one forward pass.
    """
    with amplification.left_out():  # as in _explain
        found = sweep(model, inputs, composites)
    each = zip(found.relevance, found.logit, found.residual, composites, strict=True)
    return found.target, [
        Attribution(r, found.target, y, rest, c.name, {}, {}) for r, y, rest, c in each
    ]


def read(classifier: Classifier, data: Texts, *, first: int = 0) -> Read:
    """Tokenises each text once, up to the model's last position; raises as ``Read.of``."""
    if isinstance(data, Read):
        return data
    return Read.of(data, classifier.tokenizer, limit(classifier.model), first=first)


def in_batch(classifier, data, shard):
    """Returns the texts of a shard as a padded batch, with a mask of special tokens and padding."""
    if not isinstance(data, Read):
        few = {key: [getattr(data, key)[n] for n in shard] for key in ("texts", "labels")}
        data, shard = read(classifier, replace(data, **few)), range(len(shard))
    tokens = [data.tokens[n] for n in shard]
    padding = len({len(each["input_ids"]) for each in tokens}) > 1  # else no token to pad with
    # Padding on the left would shift positions that count columns.
    side = "left" if reads_end(classifier.model) else "right"
    how = {"padding": padding, "padding_side": side, "return_attention_mask": True}
    words, borrows = classifier.tokenizer, padding and classifier.tokenizer.pad_token is None
    try:
        if borrows:
            words.pad_token = words.eos_token  # the mask hides it
        padded = words.pad(tokens, **how)
    finally:
        if borrows:
            words.pad_token = None
    # return_tensors="pt" takes ten times as long, because it looks at each number.
    inputs = {key: torch.tensor(x) for key, x in padded.items()}
    return inputs, inputs.pop("special_tokens_mask") == 1


def limit(model):
    """Returns the most tokens of a text: rotation has no end, but lengths of training had."""
    facts = facts_of(model)
    return min(facts.positions, facts.made_for)
