"""The table of bad inputs: each is refused in one message, and leaves all as it was.

Bad inputs of the program (``bad_arguments``, ``bad_folders``) end in exit code 2, of Python
(``bad_calls``) in one exception; ``test_bad_environments`` has the bad environments.
"""

import gzip
import re
import shlex
import struct
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional
from torch.nn.modules.module import register_module_full_backward_hook
from transformers import AutoTokenizer, PreTrainedModel, ViTImageProcessorPil

from axioms.composites import ATTNLRP
from benchmarks.sources import models
from numeric import attribute, audit, propagation, sweep
from numeric.methods.catalogue import METHODS
from tests.census.measure import without_shifts
from tests.support import cases, folders
from tests.support.bad_arguments import COMMANDS
from tests.support.bad_calls import CALLS, HOOKS
from tests.support.bad_folders import MODELS, RESULTS
from tests.support.changes import ACT, LAYER, POOLER, made, on, placed, then, unmasked
from tests.support.traces import assert_same, said, snapshot
from tests.support.uses import in_a_block

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.fixture(scope="module")
def place(checkpoint, tmp_path_factory):
    """The folder where the commands run, which nothing may change."""
    place = tmp_path_factory.mktemp("bad")
    folders.copy(checkpoint, place / "model")
    tokenizer = AutoTokenizer.from_pretrained(
        checkpoint, model_input_names=["input_ids", "attention_mask"]
    )
    for family in ("albert", "gpt2"):
        cases.family(family, pad_token_id=0)[0].float().save_pretrained(place / family)
        tokenizer.save_pretrained(place / family)
    cases.family("vit", num_channels=3)[0].save_pretrained(place / "vit")
    ViTImageProcessorPil(size={"height": 6, "width": 6}).save_pretrained(place / "vit")
    for folder in ("empty", "data", "broken"):
        (place / folder).mkdir()
    reviews = gzip.compress(b'{"text": "a fine film", "label": 1}')
    for name, content in {
        "taken": b"mine", "notes.md": b"a", "good.txt": b"fine\n",
        "stars.csv": b"stars,review\n3,fine\n", "rules.py": b"", "broken/time.json": b"{",
        "data/imdb_test.jsonl.gz": reviews, "data/mnist.npz": b"PK\3\4 and no more",
    }.items():  # fmt: skip
        (place / name).write_bytes(content)
    maps = {"text": ["film"], "relevance": [[0.1, 0.2, 0.3]]}
    pq.write_table(pa.table(maps), place / "maps.parquet")
    Image.new("L", (64, 64), 200).save(place / "cut.png")
    whole = (place / "cut.png").read_bytes()
    (place / "cut.png").write_bytes(whole[:60])
    (place / "code.png").write_bytes(EPS)
    header = b"IHDR" + struct.pack(">IIBBBBB", 2**16, 2**16, 8, 0, 0, 0, 0)
    checked = header + struct.pack(">I", zlib.crc32(header))
    (place / "bomb.png").write_bytes(whole[:12] + checked + whole[33:])
    return place


@pytest.fixture
def refused(run, alone, monkeypatch):
    """Runs a command; fails unless it is refused in one message, and models stay bit-equal."""
    seen = []

    def watched(load):
        def loading(*arguments, **options):
            classifier = load(*arguments, **options)
            seen.append((classifier.model, snapshot(classifier.model)))
            return classifier

        return loading

    for name in ("load", "load_for_images"):
        monkeypatch.setattr(models, name, watched(getattr(models, name)))

    def refused(says, *arguments):
        code, out, err = run(*arguments)
        flat = " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
        assert (code, out) == (2, ""), err
        assert "Traceback" not in err
        assert len(re.findall("^(?:error: |╭─ Error)", err, flags=re.MULTILINE)) == 1, err
        said(flat, says)
        for model, before in seen:
            assert_same(before, snapshot(model))

    return refused


def done(changes, to):
    for change in changes if isinstance(changes, tuple) else (changes,):
        change(to)
    return to


def listing(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_line(refused, place, monkeypatch, command):
    monkeypatch.chdir(place)
    before = listing(place)
    refused(COMMANDS[command], *shlex.split(command))
    assert listing(place) == before


@pytest.mark.parametrize("name", MODELS)
def test_a_model_folder(refused, checkpoint, tmp_path, name):
    changes, says = MODELS[name]
    folder = done(changes, to=folders.copy(checkpoint, tmp_path / "spoiled"))
    refused(says, "explain", folder, "a fine film")


@pytest.mark.parametrize("name", RESULTS)
def test_a_result(refused, tmp_path, name):
    content, says = RESULTS[name]
    (tmp_path / "time.json").write_text(content)
    refused(f"{says}...; remove it, or run the experiment again", "report", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["time.json"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch[.]")  # of torch.compile's modules
@pytest.mark.parametrize("name", CALLS)
def test_a_call(tiny, batch, name):
    changes, says, kind = (*CALLS[name], ValueError)[:3]
    call = done(changes, to={"model": tiny, "inputs": batch})
    models = [model for model in {tiny, call["model"]} if isinstance(model, PreTrainedModel)]
    before = [snapshot(model) for model in models]
    for method in [call["method"]] if "method" in call else METHODS:
        with pytest.raises(kind) as caught:
            attribute(**call | {"method": method})
        assert type(caught.value) is kind
        said(str(caught.value), says)
        for model, was in zip(models, before, strict=True):
            assert_same(was, snapshot(model))


ENTRANCES = [audit, in_a_block, lambda *x: sweep(*x, [ATTNLRP]), lambda m, _: propagation(m)]


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("name", HOOKS)
def test_backward_hooks_are_refused_by_every_entrance(tiny, batch, entrance, name):
    call = done(CALLS[f"hooks {name}"][0], to={"model": tiny})
    with pytest.raises(ValueError, match="hooks on 2 modules"):
        entrance(call["model"], batch)


def test_backward_hooks_of_all_modules_are_refused_while_they_are_there(tiny, batch):
    with (
        register_module_full_backward_hook(lambda _m, into, _: into),
        pytest.raises(ValueError, match=r"backward hooks on 1 modules, \(all modules\)"),
    ):
        attribute(tiny, batch)
    attribute(tiny, batch)


def test_attention_without_a_mask_function_serves_where_nothing_is_masked(batch):
    alone = cases.first(batch)
    want = attribute(cases.tiny_bert(), alone).relevance
    torch.testing.assert_close(attribute(unmasked(), alone).relevance, want)


def as_function(module):
    """As code sets a function where another kind of thing was."""
    del module.intermediate_act_fn
    module.intermediate_act_fn = functional.gelu


UNUSUAL = {
    "cross-attention that is not asked": made(
        cases.tiny_bert, is_decoder=True, add_cross_attention=True
    ),
    "own activation": placed(type("Swish", (nn.SiLU,), {})(), LAYER(1) + ACT),
    "functions as activations": on(
        as_function, LAYER(0) + ".intermediate", LAYER(1) + ".intermediate"
    ),
    "replaced forward": on(then(lambda x: 2 * x), "bert.embeddings.LayerNorm"),
    "parametrized weight": on(nn.utils.parametrizations.orthogonal, POOLER),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_model_that_is_only_written_in_another_way_is_explained(tiny, batch, name):
    """CP-LRP conserves without shifts."""
    del batch["token_type_ids"]
    model = done(UNUSUAL[name], to={"model": tiny})["model"].eval()
    with without_shifts(model):
        found = attribute(model, batch, "cp-lrp")
    assert found.residual.abs().max() < 1e-9 * found.logit.abs().max()
    assert found.relevance.abs().max() > 1e-4


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_ids_are_refused_beside_a_mask(tiny, batch):
    nested = torch.nested.nested_tensor([*batch["input_ids"]])
    with pytest.raises(ValueError, match="input_ids is a nested tensor"):
        attribute(tiny, batch | {"input_ids": nested})


def test_a_single_token_that_cannot_be_left_out_is_explained_by_rules(tiny, batch):
    batch["attention_mask"][1, 1:] = 0
    assert attribute(tiny, batch).relevance[1, 0] != 0


@pytest.mark.parametrize(
    "message", ["target=4", "class target=3", "target=3: a\nb", "3 target=", ""]
)
def test_a_message_that_says_something_else_is_noticed(message):
    said("target=3: an int", "target=3...int")
    with pytest.raises(AssertionError):
        said(message, "target=3...int")


def test_texts_without_a_column_are_empty_also_where_the_last_token_is_read():
    for name in ("gpt2", "llama", "bert"):
        model, _ = cases.family(name)
        with pytest.raises(ValueError, match=r"empty text: no token in examples \[0\]"):
            attribute(model, {"input_ids": torch.empty(1, 0, dtype=torch.int64)})
