"""Ranks maps of the same texts by faithfulness, from a file of any source."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lrp_axioms.benchmarks.experiments import text
from lrp_axioms.benchmarks.experiments.batches import naming
from lrp_axioms.benchmarks.experiments.maps import SEED, means, too_few
from lrp_axioms.benchmarks.experiments.record import Experiment, number, value
from lrp_axioms.benchmarks.experiments.result import Result, joined
from lrp_axioms.benchmarks.running import runner
from lrp_axioms.benchmarks.running.folders import MANIFEST
from lrp_axioms.benchmarks.running.workers import Track, untracked
from lrp_axioms.benchmarks.sources import faults, files
from lrp_axioms.benchmarks.sources.data import unlabelled
from lrp_axioms.benchmarks.sources.models import Classifier
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean
from lrp_axioms.numeric.evaluation.faithfulness import LOWER, MEASURES, evaluate

COLUMNS = ("text", "relevance")
OPTIONAL = {"method": "relevance", "target": None}
"""Column that a file may leave out -> its default."""
BEGINNING = 60  # letters of a text that an error quotes
FIRST = "Δ"  # sorts the table
TEXT = (
    "Mean over texts, with 95 % bootstrap intervals over texts. r and τ: agreement with "
    "Leave-One-Out. MoRF and LeRF: mean logit while tokens are removed, most or least relevant "
    "first; Δ = LeRF − MoRF. Top drop: fall of the logit without the most relevant tokens. LDS: "
    "rank correlation of the sum of relevance with the logit over random halves of the tokens. "
    "Explained: share of the variance of the logit without random quarters of the tokens that the "
    "sum of their relevance explains: where it is small, distrust a map of single tokens. "
    "Soft sufficiency and comprehensiveness: share of the class's probability that stays, or goes, "
    "when entries of words are kept, or dropped, by relevance; the gain subtracts the same share "
    "for the same values in random order, because plain soft measures depend on how many words a "
    "map keeps, whichever these are. MoRF alone is better where it is smaller."
)


@dataclass(frozen=True)
class Maps:
    """Texts, the class of each that is explained (None: the predicted one), and maps by method."""

    texts: tuple[str, ...]
    targets: tuple[int | None, ...]
    relevance: Mapping[str, Sequence[Sequence[float]]]  # by method, text and token


def read(path: Path) -> Maps:
    """Reads maps of a Parquet file, or of all in a folder; one line per text and method.

    Raises ValueError for lines without a text or finite numbers, for methods that differ in their
    texts, and for texts that are explained for two classes; RunError for an unfinished run.
    """
    found: dict[str, list] = {}
    for part in _parts(path):
        for given in _lines(part):
            found.setdefault(given[2], []).append(given)
    by_text = {name: sorted(given, key=lambda x: x[0]) for name, given in found.items()}
    (first, start), *others = by_text.items()
    about = lambda given: [(x[0], x[3]) for x in given]
    classes = Counter(x for x, _ in dict.fromkeys(about(start)))
    if several := [x for x, count in classes.items() if count > 1]:
        raise ValueError(
            f"{path}: {several[0]!r} is explained for several classes ({len(several)} texts in "
            "all): evaluate the maps of each class apart"
        )
    for name, given in others:
        if about(given) != about(start):
            odd = next(iter(set(about(given)) ^ set(about(start))), None)
            raise ValueError(
                f"{path}: {name!r} and {first!r} are not about the same texts and classes: "
                f"{'some are there more than once' if odd is None else f'{odd} is of one of them'}"
                "; pass one line per text and method"
            )
    relevance = {name: [x[1] for x in given] for name, given in by_text.items()}
    return Maps(tuple(x[0] for x in start), tuple(x[3] for x in start), relevance)


def _parts(path):
    if (path / MANIFEST).exists():
        return runner.verify(path).parts()
    found = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not found:
        raise ValueError(f"{path} holds no Parquet files; pass one, or a folder of `attribute`")
    return found


def _lines(path):
    advice = "pass a Parquet file with text and relevance, such as `lrp-axioms attribute` writes"
    if not path.exists():
        raise ValueError(f"{path}: there is no such file or folder; {advice}")
    if path.suffix != ".parquet":
        raise ValueError(f"{path} is no Parquet file; {advice}")
    try:
        with path.open("rb") as file:
            there = pq.read_schema(file).names
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path} cannot be read ({error}); {advice}") from error
    columns = [*COLUMNS, *(name for name in OPTIONAL if name in there)]
    named = lambda given: OPTIONAL | dict(zip(columns, given, strict=True))
    for given in files.records(path, columns, lambda *x: _fault(**named(x)), advice=advice):
        yield tuple(named(given)[name] for name in (*COLUMNS, *OPTIONAL))


def _fault(text, relevance, method, target):
    if fault := faults.text_fault(text):
        return fault
    if not isinstance(relevance, list):
        return "relevance that is no list"
    if not all(isinstance(x, float | int) and np.isfinite(x) for x in relevance):
        return "relevance that is not finite"
    if not isinstance(method, str):
        return "no method"
    return None if target is None or type(target) is int else "a target that is no class"


def judge(
    classifier: Classifier,
    maps: Maps,
    *,
    name: str,
    measures: Sequence[str] = tuple(MEASURES),
    seed: int = 0,
    track: Track = untracked,
) -> Result:
    """Returns a line per method with the mean of every measure, and its gap to the best method.

    Raises ValueError for maps with other tokens than the model's, and errors of ``evaluate``.
    """
    data = text.read(classifier, unlabelled(name, maps.texts))
    lengths = [len(each["input_ids"]) for each in data.tokens]
    for method, given in maps.relevance.items():
        wrong = [n for n, x in enumerate(given) if len(x) != lengths[n]]
        if wrong:
            raise ValueError(
                f"{method!r} has {len(given[wrong[0]])} values for {maps.texts[wrong[0]]!r}, of "
                f"which the model's tokenizer makes {lengths[wrong[0]]} tokens, special ones too "
                f"({len(wrong)} texts in all); pass relevance by the tokens of this model"
            )
    found: dict[str, dict[str, np.ndarray]] = {
        method: {key: np.empty(len(maps.texts)) for key in measures} for method in maps.relevance
    }
    shards = (_by_target(maps, shard) for shard in text.shards(classifier, data))
    for shard in track([part for parts in shards for part in parts], "texts"):
        inputs, _ = text.in_batch(classifier, data, shard)
        present = inputs["attention_mask"].numpy() == 1
        padded = {method: np.zeros(present.shape) for method in maps.relevance}
        for method, x in padded.items():
            x[present] = np.concatenate([maps.relevance[method][n] for n in shard])
        given = [maps.targets[n] for n in shard]
        options = {"target": None if None in given else given, "measures": measures, "seed": seed}
        with naming([repr(maps.texts[n][:BEGINNING]) for n in shard]):
            measured = evaluate(classifier.model, inputs, padded, **options)
        for method, values in measured.items():
            for key, x in values.items():
                found[method][key][shard] = x
    settings = text.settings(classifier, data) | {"seed": seed}
    return _result(found, maps, settings, name)


def _by_target(maps, shard):
    """Divides a shard into texts with a class in the file, and texts of the predicted class."""
    predicted = [n for n in shard if maps.targets[n] is None]
    given = [n for n in shard if maps.targets[n] is not None]
    return [part for part in (given, predicted) if part]


def _result(found, maps, settings, name):
    measures = list(next(iter(found.values())))
    best = {key: found[_ranked(found, key)[0]][key] for key in measures}
    rows = []
    for method, values in found.items():
        behind = {f"{key} behind": best[key] - values[key] for key in measures}
        rows.append({"method": method, **means(values), **means(behind)})
    order = _ranked(found, FIRST if FIRST in measures else measures[0])
    rows.sort(key=lambda row: order.index(row["method"]))
    examples = joined(
        {"method": [method] * len(maps.texts), "text": maps.texts}
        | {key: values[key].tolist() for key in measures}
        for method, values in found.items()
    )
    return Result(
        name=f"evaluate-{name}",
        table="evaluate",
        title=f"How faithful maps are to {settings['model']!r}, on {len(maps.texts)} texts",
        text=TEXT,
        settings=settings,
        rows=rows,
        examples=examples,
        notes=(*_notes(found, measures), *_undefined(found), *_repeated(maps.texts)),
    )


def _repeated(texts):
    """Says how many texts are there again, because intervals take each line for a new text."""
    if again := len(texts) - len(set(texts)):
        yield f"{again} of {len(texts)} texts are repeated, which makes intervals too narrow."


def _undefined(found):
    """Counts texts without a value of a measure, in words."""
    why = {
        "soft": "no words raise the probability there, the map is constant, or labels share no "
        "softmax"
    }
    other = "a map is constant there, no removal changes the logit, or there are too few tokens"
    counts: dict[str, int] = {}
    for values in found.values():
        for key, x in values.items():
            kind = key.split()[0]
            counts[kind] = max(counts.get(kind, 0), int(np.isnan(x).sum()))
    for kind, count in counts.items():
        if count:
            measures = "soft measures" if kind == "soft" else kind
            yield f"{measures} left out in up to {count} texts: {why.get(kind, other)}."


def _ranked(found, key):
    """Sorts maps by their means over the texts where all are defined; undefined maps are last."""
    values = {method: each[key] for method, each in found.items()}
    known = {method: x for method, x in values.items() if not np.isnan(x).all()}
    common = _common(known.values())
    sign = 1 if key in LOWER else -1
    mean = lambda method: sign * np.nanmean(known[method][common])
    return [*sorted(known, key=mean), *(m for m in values if m not in known)]


def _common(values):
    """Returns True at the texts where all values are defined, or everywhere if there are none."""
    defined = ~np.isnan([*values]).any(axis=0)
    return defined | ~defined.any()


def _notes(found, measures):
    """Names the best map by measure, and its lead over the next."""
    if len(found) < 2:
        return
    yield from too_few(len(next(iter(found.values()))[measures[0]]))
    equal: dict[str, list[str]] = {}
    for key in (key for key in measures if f"{key} gain" not in measures):
        first, second = _ranked(found, key)[:2]
        if np.isnan(found[first][key]).all():  # and so are all others
            continue
        if np.array_equal(found[first][key], found[second][key], equal_nan=True):
            equal.setdefault(f"{first} and {second}", []).append(key)
            continue
        sign = -1 if key in LOWER else 1
        defined = [x[key] for x in found.values() if not np.isnan(x[key]).all()]
        gaps = (found[first][key] - found[second][key])[_common(defined)]
        gap = bootstrap_mean(sign * gaps, seed=SEED)
        if np.isnan(gap.mean):
            continue
        separated = "" if gap.low > 0 else ", which these texts do not separate from it"
        yield (
            f"{key}: {first} is first, {gap.mean:z.3f} [{gap.low:z.3f}, {gap.high:z.3f}] ahead "
            f"of {second}{separated}."
        )
    for both, keys in equal.items():
        yield f"{', '.join(keys)}: {both} are equal in every text, and no other map is better."


def _without_gain(key):
    """Formats a plain soft measure where its gain was not measured."""
    return lambda row: number(key, 2)({} if f"{key} gain" in row else row)


HEADERS = {
    "r": "r", "τ": "tau", "MoRF": "MoRF", "LeRF": "LeRF", "Δ": "Δ", "top\ndrop": "top drop",
    "LDS": "LDS", "expl.": "explained", "suff.\ngain": "soft sufficiency gain",
    "compr.\ngain": "soft comprehensiveness gain",
}  # fmt: skip
EXPERIMENT = Experiment(
    name="evaluate",
    columns=[
        ("method", value("method")),
        *((header, number(key, 2)) for header, key in HEADERS.items()),
        ("suff.", _without_gain("soft sufficiency")),
        ("compr.", _without_gain("soft comprehensiveness")),
    ],
    drops_empty=True,
)
