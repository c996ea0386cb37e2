"""Classifiers by name: embedded, from a folder, from the Hub's cache; every refusal names the
fault, the place and the next step."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from benchmarks.sources import models
from benchmarks.sources.pins import PINS
from numeric.models import digests
from tests.support import cases, folders
from tests.support.folders import WORDS


@pytest.fixture
def editable(checkpoint, tmp_path):
    """A copy of the checkpoint to break."""
    return folders.copy(checkpoint, tmp_path / "model")


def test_the_embedded_classifier_is_float32_in_eval_mode_and_names_its_classes():
    classifier = models.load()
    assert classifier.model.dtype == torch.float32
    assert not classifier.model.training
    assert [classifier.label(n) for n in (0, 1, 7)] == ["negative", "positive", "7"]


def test_a_folder_gives_its_model_and_tokenizer(checkpoint):
    classifier = models.load(str(checkpoint))
    assert classifier.tokenizer("a fine film").input_ids == [2, 5, 6, 7, 3]
    want = BertForSequenceClassification.from_pretrained(checkpoint, dtype=torch.float32)
    for name, parameter in classifier.model.state_dict().items():
        torch.testing.assert_close(parameter, want.state_dict()[name], rtol=0, atol=0)


def test_digest_is_of_the_weights_whatever_the_file_and_sees_one_of_them_change(checkpoint):
    first, second = models.load(str(checkpoint)), models.load(str(checkpoint))
    assert first.sha256 == second.sha256 == digests.of_model(first.model)
    with torch.no_grad():
        second.model.classifier.bias[0] += 1e-6
    assert digests.of_model(second.model) != first.sha256
    assert digests.of_model(first.model.double()) != first.sha256


def test_the_digest_of_a_tokenizer_is_of_how_texts_become_tokens(checkpoint, editable):
    first = models.load(str(checkpoint))
    assert models.load(str(editable)).tokenizer_sha256 == first.tokenizer_sha256  # elsewhere
    first.tokenizer(["a fine film"], padding=True, truncation=True, max_length=4)
    assert digests.of_tokenizer(first.tokenizer) == first.tokenizer_sha256
    path = editable / "tokenizer.json"
    path.write_text(path.read_text().replace('"dull"', '"limp"'))
    others = [
        AutoTokenizer.from_pretrained(editable),
        AutoTokenizer.from_pretrained(checkpoint, do_lower_case=False),
        AutoTokenizer.from_pretrained(checkpoint, mask_token="[UNK]"),
        AutoTokenizer.from_pretrained(checkpoint, truncation_side="left"),
        AutoTokenizer.from_pretrained(checkpoint, model_input_names=["input_ids"]),
    ]
    found = {first.tokenizer_sha256, *map(digests.of_tokenizer, others)}
    assert len(found) == 1 + len(others)


def test_the_digest_of_a_slow_tokenizer_is_of_its_merges_too():
    plain = {"is_fast": False, "init_kwargs": {}, "get_vocab": dict, "special_tokens_map": {}}
    plain |= dict.fromkeys(("padding_side", "truncation_side", "model_input_names"))
    ranks = [{}, {("a", "b"): 0, ("b", "c"): 1}, {("b", "c"): 0, ("a", "b"): 1}]
    found = {digests.of_tokenizer(SimpleNamespace(**plain, bpe_ranks=x)) for x in ranks}
    assert len(found) == len(ranks)


def test_the_digest_of_a_config_is_of_what_the_model_computes_not_of_where_it_was(checkpoint):
    first = models.load(str(checkpoint))
    config = first.model.config
    same = [{"_name_or_path": "elsewhere"}, {"transformers_version": "5"}, {"dtype": "float64"}]
    other = [{"hidden_act": "relu"}, {"layer_norm_eps": 1e-5}, {"id2label": {0: "x", 1: "y"}}]
    change = lambda new: digests.of_config(type(config).from_dict(config.to_dict() | new))
    assert {*map(change, same)} == {first.config_sha256}
    assert len({first.config_sha256, *map(change, other)}) == 1 + len(other)


def test_a_checkpoint_without_classifier_weights_is_refused(editable):
    BertModel(cases.tiny_config(vocab_size=len(WORDS))).save_pretrained(editable)
    with pytest.raises(ValueError, match=r"no weights for classifier.bias, classifier.weight"):
        models.load(str(editable))


def test_a_config_that_turns_biases_off_is_refused(editable):
    sizes = {"vocab_size": len(WORDS), "hidden_size": 8, "intermediate_size": 8}
    heads = {"num_attention_heads": 2, "num_hidden_layers": 1}
    config = LlamaConfig(**sizes, **heads, attention_bias=True)
    LlamaForCausalLM(config).save_pretrained(editable)
    folders.settings(attention_bias=False)(editable)
    with pytest.raises(ValueError, match=r"leaves out: model.layers.0.self_attn.k_proj.bias, "):
        models.load(str(editable))


def test_weights_of_heads_for_another_task_are_left_out(editable):
    BertForPreTraining(cases.tiny_config(vocab_size=len(WORDS))).save_pretrained(editable)
    folders.settings(architectures=["BertForMaskedLM"])(editable)
    assert models.load(str(editable)).explains == "masked token"


PINNED = "textattack/bert-base-uncased-SST-2"
REVISIONS = [
    ("embedded", {}, None),
    ("someone/bert", {}, None),
    ("someone/bert", {"revision": "v2"}, "v2"),
    (PINNED, {"revision": "v2"}, "v2"),
    *((name, {}, revision) for name, revision in PINS["models"].items()),
]


@pytest.mark.parametrize(("name", "given", "revision"), REVISIONS)
def test_model_and_tokenizer_of_a_known_id_are_asked_for_at_its_pinned_revision(
    monkeypatch, name, given, revision
):
    asked = []

    def answer(kind, content):
        def from_pretrained(source, **options):
            asked.append((kind, str(source), options["revision"]))
            return content

        return from_pretrained

    loaded = models.load()
    config = answer("config", ({}, {}))
    monkeypatch.setattr(models.PreTrainedConfig, "get_config_dict", config)
    model = answer("model", (loaded.model, {"missing_keys": [], "unexpected_keys": []}))
    monkeypatch.setattr(models.AutoModelForSequenceClassification, "from_pretrained", model)
    tokenizer = answer("tokenizer", loaded.tokenizer)
    monkeypatch.setattr(models.AutoTokenizer, "from_pretrained", tokenizer)
    assert models.load(name, **given).name == name
    source = str(models.EMBEDDED.get(name, name))
    assert asked == [(kind, source, revision) for kind in ("config", "model", "tokenizer")]
    if not given:
        models.takes_images(name)
        models.vocabulary(name)
        assert asked[3:] == [(kind, source, revision) for kind in ("config", "tokenizer")]


def test_offline_a_cached_hub_id_loads_and_others_name_what_works_without_network(
    checkpoint, tmp_path
):
    """One process of its own: the Hub libraries read their settings when they are imported."""
    hub, zero, pinned = tmp_path / "hub", "0" * 40, PINS["models"][PINNED]
    folders.in_hub(tmp_path, "model", PINNED, pinned, checkpoint)
    for main in hub.rglob("refs/main"):  # at no other revision, main neither
        main.unlink()
    folders.in_hub(tmp_path, "model", "someone/tiny-bert", "main", checkpoint)
    script = f"""
        import json
        from benchmarks.sources import data, models
        name, pinned, zero = "someone/tiny-bert", "{PINNED}", "{zero}"
        found = [models.load(name), models.load(name, revision=zero), models.load(pinned)]
        answers = [classifier.sha256 for classifier in found]
        for load in (
            lambda: models.load("someone/other"),
            lambda: models.load(name, revision="1" * 40),
            lambda: models.load(pinned, revision="main"),
            lambda: data.load("sst2"),
        ):
            try:
                load()
            except models.UnavailableError as error:
                answers.append(str(error))
        print(json.dumps(answers))
    """
    home = {"HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(hub), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | home,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    *digests, other, wrong, main, dataset = json.loads(done.stdout)
    assert digests == [models.load(str(checkpoint)).sha256] * 3
    for message, name in ((other, "someone/other"), (wrong, "someone/tiny-bert"), (main, PINNED)):
        assert message.startswith(f"model '{name}' could not be loaded")
        assert "pass embedded as the model" in message
        assert "--model" not in message
    assert "'stanfordnlp/sst2'" in dataset
    assert "--data-dir" in dataset
    assert "--dataset embedded" in dataset
