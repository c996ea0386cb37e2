"""inseq and Quantus return the numbers of ``attribute``, and the page of tools runs."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2LMHeadModel, LlamaForCausalLM, PreTrainedTokenizerFast

from numeric import attribute
from numeric.targets import OWN, log_probability, logit
from numeric.tools.external_model import ExternalModel
from numeric.tools.quantus import FromEmbeddings, explain
from tests.support import cases
from tests.support.cases import close
from tests.support.tools import PROMPT, language_model, loaded, translator

SINGLE = 10 * torch.finfo(torch.float32).eps  # of results that a library turns into float32


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
@pytest.mark.parametrize("cls", [LlamaForCausalLM, GPT2LMHeadModel])
def test_what_other_code_computes_of_logits_keeps_its_own_gradient(cls, method):
    model = language_model(cls)
    ids = torch.tensor([[2, 7, 1, 5], [2, 4, 3, 6]])
    ruled = ExternalModel(model, method)
    p = ruled(input_ids=ids).logits[:, -1].softmax(dim=1)[:, 4]
    want = attribute(model, {"input_ids": ids}, method, log_probability(4)).relevance
    (got,) = ruled.relevance(p)
    close(got, p.detach()[:, None] * want)  # because dp = p d(log p)


def test_a_source_and_what_is_written_have_relevance_of_their_own():
    model = translator()
    source, written = torch.tensor([[4, 7, 5, 2]]), torch.tensor([[1, 6, 8]])
    ruled = ExternalModel(model, "cp-lrp")
    output = ruled(input_ids=source, decoder_input_ids=written)
    found = ruled.relevance(output.logits[0, -1, 3])
    assert [x.shape for x in found] == [(1, 4), (1, 3)]
    total = sum(x.sum() for x in found)
    close(total, output.logits[0, -1, 3].detach())  # T5 adds nothing, and CP-LRP keeps the logit


def inseq_of(model, tokenizer, method, **options):
    inseq = loaded("inseq")
    importlib.import_module("lrp_axioms.numeric.tools.inseq")
    return inseq.load_model(model, method, tokenizer=tokenizer, device="cpu", **options)


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
def test_inseq_explains_what_a_language_model_writes(tokenizer, method):
    model = language_model(GPT2LMHeadModel, bos_token_id=2, eos_token_id=3)
    whole = inseq_of(model, tokenizer, method)
    asked = {"show_progress": False, "skip_special_tokens": True}
    written = f"{PROMPT} soup . fine"
    for name, of in {"logit": logit, "probability": log_probability}.items():
        out = whole.attribute(PROMPT, written, attributed_fn=name, **asked)
        found = out.sequence_attributions[0].target_attributions  # (token, step)
        ids = tokenizer(written, add_special_tokens=False, return_tensors="pt")["input_ids"]
        for n in range(3):
            want = attribute(model, {"input_ids": ids}, method, of(OWN, at=2 + n))
            p = want.logit.exp() if of is log_probability else 1
            close(found[: 3 + n, n], (p * want.relevance)[0, : 3 + n].float(), tolerance=SINGLE)
            assert found[3 + n :, n].isnan().all()
    assert "get_forward_output" not in vars(whole)
    whole.attribute(PROMPT, written, method="saliency", **asked)
    again = whole.attribute(PROMPT, written, attributed_fn="probability", **asked)
    again = again.sequence_attributions[0].target_attributions
    assert torch.equal(again.nan_to_num(), found.nan_to_num())


def test_inseq_explains_the_source_and_what_is_written(tokenizer):
    model = translator()
    whole = inseq_of(model, tokenizer, "cp-lrp")
    asked = {"attributed_fn": "logit", "attribute_target": True, "show_progress": False}
    out = whole.attribute(PROMPT, "fine soup", **asked)
    (found,) = out.sequence_attributions
    source = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    written = torch.tensor([[0, *tokenizer("fine soup")["input_ids"]]])
    ruled = ExternalModel(model, "cp-lrp")
    for n in range(found.source_attributions.shape[1]):
        output = ruled(input_ids=source, decoder_input_ids=written[:, : n + 1])
        of_source, of_written = ruled.relevance(output.logits[0, -1, written[0, n + 1]])
        close(found.source_attributions[:, n], of_source[0].float(), tolerance=SINGLE)
        got = found.target_attributions[: n + 1, n]
        close(got, of_written[0].float(), tolerance=SINGLE)


@pytest.mark.parametrize(("name", "share"), [("bert", "word"), ("llama", "embedding")])
@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
def test_quantus_gets_the_share_of_words(name, share, method):
    model, inputs = cases.family(name)
    ids = inputs["input_ids"][:1]
    module = FromEmbeddings(model)
    x = module.embeddings(ids)
    got = explain(module, x, np.array([2]), method=method, device="cpu")  # as Quantus asks
    assert got.shape == (1, ids.shape[1], 1)
    want = attribute(model, {"input_ids": ids}, method, 2, share=share).relevance
    close(torch.from_numpy(got[..., 0]), want)
    close(module(torch.from_numpy(x)).detach(), model(input_ids=ids).logits.detach())
    with pytest.raises(TypeError, match=r"pass FromEmbeddings.*lrp_axioms\.numeric\.tools"):
        explain(model, x, np.array([2]))


def test_quantus_removes_the_most_relevant_tokens_first():
    quantus = loaded("quantus")
    model, inputs = cases.family("bert")
    model, ids = model.float(), inputs["input_ids"][:1]
    module = FromEmbeddings(model)
    x = module.embeddings(ids)
    found = quantus.PixelFlipping(
        features_in_step=x.shape[2], perturb_baseline=0.0, abs=False, normalise=False,
        disable_warnings=True,
    )(
        model=module, x_batch=x, y_batch=np.array([1]), channel_first=True, softmax=False,
        explain_func=explain, explain_func_kwargs={"method": "cp-lrp"},
    )  # fmt: skip
    order = attribute(model, {"input_ids": ids}, "cp-lrp", 1, share="word").relevance[0].argsort()
    less, want = torch.from_numpy(x), []
    for token in order.flip(0):
        less[:, token] = 0
        want.append(model(inputs_embeds=less).logits[:, 1].detach())
    close(torch.tensor(found), torch.stack(want, dim=1), tolerance=SINGLE)


@pytest.mark.parametrize("name", ["captum", "inseq"])
def test_an_absent_library_is_named_with_what_installs_it(monkeypatch, name):
    for module in [x for x in sys.modules if x.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"lrp_axioms.numeric.tools.{name}", raising=False)
    with pytest.raises(ImportError, match=rf'needs {name}, .* pip install "lrp-axioms\[{name}\]"'):
        importlib.import_module(f"lrp_axioms.numeric.tools.{name}")


PAGE = Path(__file__).parents[2] / "docs" / "TOOLS.md"
WRITER = '"Qwen/Qwen3-0.6B"'


def code(title):
    """The example under a heading of the page."""
    (part,) = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S)
    return re.search(r"```python\n(.*?)```", part, re.S)[1]


def letter_tokenizer():
    """One that gives every text of ASCII back as it was, the only kind that its model writes."""
    letters = sorted(x for x in pre_tokenizers.ByteLevel.alphabet() if x.isascii() or x == "Ġ")
    vocabulary = {x: n for n, x in enumerate(["<pad>", "<unk>", "<s>", *letters])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


EXAMPLES = {
    "Pipelines of Transformers": ((), "len(generation.relevance) == 5"),
    "Captum": (("captum.attr", "IPython"), "torch.equal(relevance, found.relevance)"),
    "inseq": (("inseq",), "out.sequence_attributions[0].target_attributions.shape[1] == 5"),
    "Quantus": (("quantus",), "flipping.evaluation_scores[0]"),
}


@pytest.mark.filterwarnings("ignore")  # of the other libraries
@pytest.mark.parametrize("title", EXAMPLES)
def test_the_example_on_the_page_runs(title, tmp_path):
    packages, holds = EXAMPLES[title]
    for package in packages:
        loaded(package)
    letters = letter_tokenizer()
    model = language_model(vocab_size=len(letters), bos_token_id=2, eos_token_id=None)
    for each in (model, letters):
        each.save_pretrained(tmp_path / "writer")
    first = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)[1]
    assert WRITER in first
    text = (first + code(title)).replace(WRITER, repr(str(tmp_path / "writer")))
    found = {"torch": torch}
    exec(text.replace('"benchmarks/', f'"{PAGE.parents[1]}/benchmarks/'), found)
    assert eval(holds, found)
