"""The results of a run on text belong to one model, one row and one set of texts."""

import copy
import json
import re
from dataclasses import replace

import pytest
import torch

from benchmarks.errors import RunError
from benchmarks.experiments import rows, text
from benchmarks.running import workers
from benchmarks.sources import data, models
from numeric.models import digests
from tests.support.traces import contents


@pytest.fixture(scope="module")
def classifier():
    return models.load()


FEW = data.Texts("few", ("a fine film", "dull ."), (1, 0), "invented", "SST", 1)
LOO = replace(rows.load("table2-sst2-loo"), curves=False)


def other_weights(classifier):
    model = models.load().model
    with torch.no_grad():
        model.classifier.bias[0] += 1e-6
    return replace(classifier, model=model, sha256=digests.of_model(model))


def other_tokenizer(classifier):
    """One that keeps capitals; the weights are the same."""
    rules = json.loads(classifier.tokenizer.backend_tokenizer.to_str())
    rules["normalizer"]["lowercase"] = False
    tokenizer = copy.deepcopy(classifier.tokenizer)
    tokenizer._tokenizer = type(tokenizer._tokenizer).from_str(json.dumps(rules))
    return replace(
        classifier, tokenizer=tokenizer, tokenizer_sha256=digests.of_tokenizer(tokenizer)
    )


def other_config(classifier):
    """Another activation; the weights are the same."""
    config = copy.deepcopy(classifier.model.config)
    config.hidden_act = "relu"
    model = type(classifier.model)(config).eval()
    model.load_state_dict(classifier.model.state_dict())
    return replace(classifier, model=model, config_sha256=digests.of_config(config))


CHANGED = {
    "model_sha256": lambda c: (LOO, other_weights(c), FEW),
    "tokenizer_sha256": lambda c: (LOO, other_tokenizer(c), FEW),
    "config_sha256": lambda c: (LOO, other_config(c), FEW),
    "dataset_sha256": lambda c: (LOO, c, replace(FEW, texts=("a fine film", "dull !"))),
    "model": lambda c: (LOO, replace(c, name="other"), FEW),
    "examples": lambda c: (replace(LOO, examples=1), c, FEW),
    "dtype": lambda c: (replace(LOO, dtype="float64"), c, FEW),
    "curves": lambda c: (replace(LOO, curves=True), c, FEW),
    "variants.LOO.method": lambda c: (replace(LOO, variants={"LOO": {"method": "cp-lrp"}}), c, FEW),
}


@pytest.mark.parametrize("key", CHANGED)
def test_a_run_on_anything_else_stops_before_it_mixes_results(tmp_path, classifier, key):
    text.run(LOO, classifier, FEW, output=tmp_path)
    before = contents(tmp_path / LOO.name)
    row, other, texts = CHANGED[key](classifier)
    with pytest.raises(RunError, match=rf"\n  {re.escape(key)}: .* there, .* now") as caught:
        text.run(row, other, texts, output=tmp_path)
    for digest in ("model_sha256", "tokenizer_sha256", "config_sha256"):
        assert (digest in str(caught.value)) == (digest == key)
    assert contents(tmp_path / LOO.name) == before


def test_the_number_of_examples_of_a_row_counts(tmp_path, classifier):
    run = text.run(replace(LOO, examples=1), classifier, FEW, output=tmp_path)
    assert run.table["example"].to_pylist() == [0]
    assert run.settings["examples"] == 1


def test_the_papers_numbers_may_change(tmp_path, classifier):
    text.run(LOO, classifier, FEW, output=tmp_path)
    text.run(replace(LOO, paper={}), classifier, FEW, output=tmp_path)


def test_an_error_in_mid_run_says_which_texts_it_counts(tmp_path, classifier):
    model = copy.deepcopy(classifier.model)
    dull = classifier.tokenizer.convert_tokens_to_ids("dull")
    model.get_input_embeddings().weight.data[dull] = torch.nan
    with pytest.raises(ValueError, match=r"examples \[0\].*texts 2, 1"):  # the shortest is first
        text.run(LOO, replace(classifier, model=model), FEW, output=tmp_path)


def test_a_model_that_workers_cannot_get_is_refused(tmp_path, classifier):
    model = copy.deepcopy(classifier.model).to("meta")  # as on a GPU: not in the CPU's memory
    engine = workers.Engine(lambda function, items: iter(()), "cuda:0")
    with pytest.raises(ValueError, match=r"the model is on meta, .* moves it to cuda:0"):
        text.run(LOO, replace(classifier, model=model), FEW, output=tmp_path, engine=engine)
    assert not list(tmp_path.iterdir())
