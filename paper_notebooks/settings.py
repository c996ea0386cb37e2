"""Settings of the notebooks, which `build.py` passes to kernels in an environment variable."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

VARIABLE = "LRP_AXIOMS_NOTEBOOKS"
ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {"imdb": 200}  # of the others, all


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Models and data (default: the paper's, from the Hugging Face Hub) and how much of them."""

    data_dir: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)  # data set -> folder or Hub id
    results: str = str(ROOT / "results" / "notebooks")  # finished runs in it are only read
    judges: Sequence[str] = ()  # classifiers of SST-2 of other shapes, folders or Hub ids
    examples: Mapping[str, int] = field(default_factory=dict)  # data set -> only the first N
    reduced: bool = False  # few texts, images and proofs: only the road is tested

    def folder(self, name: str) -> Path:
        """Returns the folder of the runs on one data set."""
        return Path(self.results) / name

    def environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}


def load() -> Settings:
    """Returns the settings of `build.py`, or the defaults in a notebook opened by hand."""
    return Settings(**json.loads(os.environ.get(VARIABLE, "{}")))


def texts(settings: Settings, dataset: str, *, at_most: int | None = None):
    """Loads the measured texts of ``dataset``: the paper's data set, in file order."""
    from benchmarks.sources import data

    count = settings.examples.get(dataset, EXAMPLES.get(dataset))
    return data.load(dataset, data_dir=settings.data_dir).first(count).first(at_most)


@cache
def judge(name: str):
    """Returns a model, loaded once, such as one of ``judges``."""
    from benchmarks.sources import models

    return models.load(name)


def name_of_model(settings: Settings, dataset: str) -> str:
    """Returns the name of the model of ``dataset``: the paper's, unless another one is given."""
    from benchmarks.experiments import rows

    return settings.models.get(dataset, rows.load(rows.LOO.format(dataset)).model)


def classifier(settings: Settings, dataset: str):
    """Returns the model of ``dataset``, loaded once."""
    return judge(name_of_model(settings, dataset))


def measure(settings: Settings, table: str, dataset: str):
    """Computes a table of the text experiments; complete runs in ``results`` are only read."""
    from benchmarks.experiments.record import Request, experiment
    from benchmarks.experiments.reproduce import on_texts

    request = Request(
        classifier=classifier(settings, dataset),
        data=texts(settings, dataset),
        output=settings.folder(dataset),
    )
    return on_texts(experiment(table), request)


def trade_off(
    settings: Settings, dataset: str, names: Sequence[str], *, model: str = "", at_most: int | None
):
    """Measures rows of the table "tradeoff", without the curves of other tables."""
    from benchmarks.research.other_shapes import compare

    chosen = texts(settings, dataset, at_most=at_most)
    output = settings.folder(f"{dataset}-tradeoff")
    model = model or name_of_model(settings, dataset)
    return compare.measure(model, chosen, output, names=names)


def colour(settings: Settings, dataset: str, *, number: int) -> tuple[list[str], dict]:
    """Returns tokens and relevance by method of an embedded sentence, for the predicted class."""
    from benchmarks.sources import data
    from numeric import attribute

    found = classifier(settings, dataset)
    inputs = found.tokenizer([data.load("embedded").texts[number]], return_tensors="pt")
    tokens = found.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    methods = {"Leave-One-Out": "loo", "AttnLRP": "attnlrp", "CP-LRP": "cp-lrp"}
    maps = {name: attribute(found.model, inputs, method) for name, method in methods.items()}
    return tokens, {name: one.relevance[0].tolist() for name, one in maps.items()}
