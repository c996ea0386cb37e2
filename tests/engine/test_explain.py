"""``explain``, and the views, the table and the file of an Attribution."""

import io
import random
import re
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM

from numeric import Attribution, attribute, explain
from numeric.generation.result import Generation
from numeric.results import pictures
from numeric.results.render import colours
from numeric.spelling import printable
from numeric.targets import logit
from tests.support import cases
from tests.support.program import Page, printed

TEXTS = ["a fine film", "dull , far too long and <b>weak</b>", "joy"]


@pytest.fixture(scope="module")
def found(loaded):
    return explain(loaded.model, loaded.tokenizer, TEXTS)


def encoded(loaded, text):
    return loaded.tokenizer([text], return_tensors="pt")


@pytest.mark.parametrize("method", ["cp-lrp", "loo"])
def test_texts_together_are_explained_as_each_alone_with_its_tokens(loaded, method):
    together = explain(loaded.model, loaded.tokenizer, TEXTS, method=method, target=[0, 1, 0])
    for n, text in enumerate(TEXTS):
        inputs = encoded(loaded, text)
        alone = attribute(loaded.model, inputs, method, [0, 1, 0][n]).relevance[0].tolist()
        tokens = loaded.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
        assert [token for _, token, _ in together.lines(n)] == tokens
        assert [x for *_, x in together.lines(n)] == pytest.approx(alone, abs=2e-5)


def test_one_text_of_a_language_model_has_the_tokens_that_explain_the_next(lm):
    a = explain(lm.model, lm.tokenizer, "anna apple bert pen ; bert")
    assert lm.tokenizer.decode(a.target[0].tolist()) == "pen"
    assert a.tokens == (("<s>", "anna", "apple", "bert", "pen", ";", "bert"),)


def test_the_tokenizer_knows_the_mask_which_the_config_leaves_out(loaded):
    tiny = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(loaded.tokenizer), **tiny)
    filler, text = BertForMaskedLM(config).eval(), "not a [MASK] film"
    found = explain(filler, loaded.tokenizer, text)
    column = found.tokens[0].index("[MASK]")
    want = attribute(filler, encoded(loaded, text), target=logit(at=column))
    same(found.relevance, want.relevance)
    with pytest.raises(ValueError, match="no mask_token_id, by which to find the mask: pass token"):
        attribute(filler, encoded(loaded, text))


def test_texts_that_cannot_be_padded_and_a_tokenizer_of_images_are_refused(loaded, monkeypatch):
    vit = cases.family("vit", num_channels=3)[0]
    pixels = {"pixel_values": torch.ones(1, 3, 6, 6, dtype=torch.float64)}
    with pytest.raises(ValueError, match="inputs has none; leave it out"):
        attribute(vit, pixels, tokenizer=loaded.tokenizer)
    monkeypatch.setattr(type(loaded.tokenizer), "pad_token", None, raising=False)
    with pytest.raises(ValueError, match="3 texts of different lengths need padding"):
        explain(loaded.model, loaded.tokenizer, TEXTS)


def test_an_attribution_is_one_line_in_a_list_and_a_heat_map_in_a_notebook(found):
    assert re.fullmatch(
        r"Attribution\(attnlrp: 3 x 16 tokens, logit \[[+-]\d.\d{4}(, [+-]\d.\d{4}){2}\]\)",
        repr(found),
    )
    cell = found._repr_html_()
    page = Page(cell)
    assert page.tags.count("span") == sum(len(found.lines(n)) for n in range(3))
    assert page.loads == []
    assert {"script", "b", "style"} & {*page.tags} == set()  # nothing reaches out of the cell
    values = [np.array([value for *_, value in found.lines(n)]) for n in range(3)]
    against = sum((x < -0.05 * abs(x).max()).sum() for x in values)
    assert cell.lower().count("underline") == against + 2  # and the legend
    assert "[PAD]" not in page.words


def test_a_notebook_shows_some_of_many_samples_and_says_so(found):
    names = ("relevance", "target", "logit", "residual")
    many = Attribution(*(getattr(found, key)[[0] * 23] for key in names), "loo", {}, {})
    assert many._repr_html_().count("<strong>") == 20
    assert "3 more samples are not shown" in many._repr_html_()
    assert ">13</span>" in many._repr_html_()  # the position, where no token is known


def colours_of(picture):
    """The colours of at least as many points as a token has."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    assert image.width <= 840  # points; a page of 420 pixels shows two as one
    return {colour for count, colour in image.getcolors(1 << 24) if count > 300}


def test_all_forms_show_every_token_its_number_and_with_what_it_was_made(found):
    page = Page(found.html())
    said = printed(found.terminal(40), 40)
    assert max(map(len, said.splitlines())) <= 40
    assert page.loads == []
    for words in (page.words, said):
        for n, target in enumerate(found.target.tolist()):
            assert f"attnlrp: why target {target}?" in words
            for _, token, value in found.lines(n):
                assert re.search(rf"{re.escape(token)}\s*{re.escape(f'{value:+z.4f}')}", words)
    assert "Model BertForSequenceClassification; method attnlrp (" in page.words
    assert "b" not in page.tags
    shown = colours_of(found.png())
    for n in range(3):
        assert {*colours([value for *_, value in found.lines(n)])} <= shown


def test_shares_of_attention_are_no_logits_in_a_notebook_and_on_a_page(loaded):
    found = explain(loaded.model, loaded.tokenizer, TEXTS[0], method="attention-rollout")
    assert "shares of attention" in found._repr_html_()
    assert "larger share" in found._repr_html_()
    assert "logit" not in found._repr_html_()
    assert "Shares of attention, which are not logits" in found.html()
    assert "where the model attends" in found.html()


def test_a_picture_holds_letters_without_a_font_and_words_without_an_end(found):
    odd, values = ("映画", "$x$", "\n", "", "b" * 999), torch.linspace(-1, 1, 5)
    given = {"relevance": values[None], "tokens": (odd,), "target": torch.tensor([1])}
    given |= {name: torch.zeros(1) for name in ("logit", "residual")}
    assert {*colours(values.tolist())} <= colours_of(replace(found, **given).png())


def test_a_picture_measures_few_letters_of_a_long_name():
    with mock.patch.object(
        pictures, "_width", side_effect=lambda text, *_: 3.0 * len(text)
    ) as seen:
        name = pictures._fit_name("x" * 10**5, pictures.LONGEST)
        parts = [*pictures._parts("x" * 10**4, pictures.LONGEST, pictures.SMALL)]
    assert (name[-1], "".join(parts)) == ("…", "x" * 10**4)
    assert sum(len(call.args[0]) for call in seen.call_args_list) < 10**6


def test_nothing_that_a_terminal_obeys_is_in_any_form(found):
    odd = "\x1b[31mred\u202e"
    tokens = tuple((odd,) * len(row) for row in found.tokens)
    again = replace(found, method=odd, model=odd, tokens=tokens, options={odd: odd})
    for form in (repr(again), printed(again.terminal(), 80), again.html(), again._repr_html_()):
        assert printable(form) == form
        assert "[31mred" in form


def test_a_table_has_a_line_per_token_and_none_for_padding(found):
    table = found.to_pandas()
    assert list(table) == ["sample", "position", "token", "relevance"]
    assert len(table) == sum(len(found.lines(n)) for n in range(3))
    one = table[(table["sample"] == 0) & (table["token"] == "fine")]
    assert one["relevance"].item() == found.relevance[0, one["position"].item()].item()


CALLS = {
    "layers": {"method": "cp-lrp", "options": {"at": "bert.encoder.layer.*"}},
    "a tensor as an option": {
        "method": "loo", "options": {"budget": 3, "groups": torch.tensor([[0, 1, 1, 2, 2]])},
    },
    "a gap": {"method": "integrated-gradients", "options": {"steps": 2, "tolerance": None}},
    "a difference": {"method": "attnlrp", "target": logit(1) - logit(0), "options": {}},
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_is_saved_is_loaded_as_it_was(loaded, tmp_path, name):
    call = dict(CALLS[name])
    options = call.pop("options")
    a = explain(loaded.model, loaded.tokenizer, "a fine film", **call, **options)
    a.save(tmp_path / "a.safetensors")
    again = Attribution.load(tmp_path / "a.safetensors")
    for key, value in vars(a).items():
        same(getattr(again, key), value)


def same(got, want):
    if isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            same(got[key], want[key])
    elif isinstance(want, torch.Tensor):
        assert torch.equal(got, want)
        assert got.dtype == want.dtype
    else:
        assert got == want


@pytest.mark.parametrize("kind", [Attribution, Generation])
def test_any_other_file_is_refused_by_name(found, tmp_path, kind):
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    (tmp_path / "text").write_text("a fine film")
    says = f"holds no {kind.__name__.lower()}; pass a file of {kind.__name__}"
    for name in ("other.safetensors", "text"):
        with pytest.raises(ValueError, match=f"{name} {says}"):
            kind.load(tmp_path / name)
    found.save(tmp_path / "mine")
    with pytest.raises(ValueError, match=r"mine holds no generation; call Attribution\.load"):
        Generation.load(tmp_path / "mine")


def facts(change):
    return lambda about, _: about.update(facts=change(about["facts"]))


def tensor(name, change):
    return lambda _, tensors: tensors.update({name: change(tensors[name])})


SPOILED = {
    "no facts": lambda about, _: about.pop("facts"),
    "half of the facts": facts(lambda x: x[:9]),
    "facts that are a list": facts(lambda _: "[]"),
    "no fact": facts(lambda _: "{}"),
    "an unknown fact": facts(lambda x: x[:-1] + ', "x": 1}'),
    "a fact twice": facts(lambda x: x[:-1] + ', "method": "attnlrp", "method": "loo"}'),
    "tokens that are numbers": facts(lambda x: re.sub(r'("tokens": \[+)"[^"]*"', r"\g<1>1", x)),
    "an unknown tensor": lambda _, tensors: tensors.update(x=torch.zeros(1)),
    "relevance of integers": tensor("relevance", torch.Tensor.int),
    "relevance without an end": tensor("relevance", lambda x: x.fill_(float("inf"))),
    "a residual in two columns": tensor("residual", lambda x: x[:, None].expand(-1, 2).clone()),
    "no relevance": lambda _, tensors: tensors.pop("relevance"),
    "one logit": tensor("logit", lambda _: torch.zeros(7)),
    "relevance of no text": tensor("relevance", lambda _: torch.zeros(3)),
    "fewer tokens": tensor("relevance", lambda x: x[:, 1:].clone()),
}


@pytest.mark.parametrize("kind", [Attribution, Generation])
@pytest.mark.parametrize("name", SPOILED)
def test_a_file_that_was_changed_is_refused(found, tmp_path, name, kind):
    made = found if kind is Attribution else generation()
    about, tensors = stored_by(made, tmp_path / "mine")
    SPOILED[name](about, tensors)
    save_file(tensors, tmp_path / "spoiled", about)
    with pytest.raises(ValueError, match=r"spoiled: its \w+ was changed or is incomplete"):
        kind.load(tmp_path / "spoiled")


def test_a_file_of_another_version_is_refused_by_its_number(found, tmp_path):
    about, tensors = stored_by(found, tmp_path / "mine")
    save_file(tensors, tmp_path / "newer", about | {"format": "lrp-axioms attribution 2"})
    says = r"newer holds no attribution of version 1, but attribution of version 2; read it with"
    with pytest.raises(ValueError, match=says):
        Attribution.load(tmp_path / "newer")


def stored_by(made, path):
    """The header and the tensors of a saved file."""
    made.save(path)
    with safe_open(path, framework="pt") as file:
        return file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def generation():
    numbers = torch.arange(8.0).view(2, 4), torch.ones(2), torch.zeros(2)
    return Generation(*numbers, tuple("abcd"), 0, "Model", "attnlrp")


def test_an_option_that_is_no_data_is_refused_and_nothing_is_written(found, tmp_path):
    odd = Attribution(**vars(found) | {"options": {"at": iter(["a"])}})
    with pytest.raises(TypeError, match=r"odd: .* \(list_iterator\) cannot be saved"):
        odd.save(tmp_path / "odd")
    assert not (tmp_path / "odd").exists()


def test_no_flipped_bit_of_a_saved_explanation_is_read_as_other_numbers(found, tmp_path):
    path = tmp_path / "found.safetensors"
    found.save(path)
    data, chance, read = path.read_bytes(), random.Random(0), 0
    for _ in range(300):
        flipped = bytearray(data)
        flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            again = Attribution.load(path)
        except ValueError:
            continue
        read += 1
        assert torch.equal(again.relevance, found.relevance)
        assert torch.equal(again.logit, found.logit)
    assert read < 30  # where the name of the digest was hit, or a space
