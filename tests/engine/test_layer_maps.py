"""Relevance by token and layer, in a terminal and on a page."""

import re

import pytest
import torch

from numeric import attribute
from numeric.models.places import numbered_layers
from numeric.results.layer_maps import layer_maps
from numeric.results.render import short
from numeric.results.result import Attribution
from tests.census.build import build
from tests.support import cases, program

TEXT = ("explain", "embedded", "a fine film", "--layers")
TOKENS = ["[CLS]", "a", "fine", "film", "[SEP]"]


def tables(out):
    """Every table of layers that was printed: its columns, and its rows by their first word."""
    found = []
    for block in re.split(r"\n(?= +(?:emb|\d))", out)[1:]:
        head, *lines = block.splitlines()
        rows = (re.fullmatch(r"(\S+)((?: +[+-][\d.]+)+) *", line) for line in lines)
        found.append((head.split(), {row[1]: row[2].split() for row in rows if row}))
    return found


def test_every_layer_is_a_column_and_every_token_a_row(run):
    code, out, err = run(*TEXT)
    assert (code, err) == (0, "")
    assert "\n\nLayers of bert.encoder.layer\n" in out
    ((columns, rows),) = tables(out)
    assert columns == ["emb", *map(str, range(12))]
    assert list(rows) == [*TOKENS, "sum"]
    model, inputs = cases.load_embedded("sdpa").float(), cases.encode(["a fine film"])
    a = attribute(model, inputs, at="bert.encoder.layer.*")
    values = torch.cat([a.relevance, *a.inside.values()]).double().T
    want = [*values.tolist(), values.sum(dim=0).tolist()]
    for row, numbers in zip(rows.values(), want, strict=True):
        assert row == [short(number) for number in numbers]


def test_a_narrow_terminal_has_more_tables_with_the_same_numbers(run, monkeypatch):
    ((columns, rows),) = tables(run(*TEXT)[1])
    monkeypatch.setattr("benchmarks.cli.console.width", 40)
    out = run(*TEXT)[1]
    parts = tables(out)
    assert [len(part) for part, _ in parts] == [7, 6]
    assert [name for part, _ in parts for name in part] == columns
    for token, numbers in rows.items():
        assert [number for _, row in parts for number in row[token]] == numbers
    assert max(map(len, out.splitlines())) <= 40


PAGES = {
    "width=device-width, initial-scale=1",
    ":root { color-scheme: light dark",
    "@media (prefers-color-scheme: dark) {",
}


def test_the_page_has_the_same_numbers_and_loads_nothing(run, tmp_path):
    page = tmp_path / "page.html"
    ((_, rows),) = tables(run(*TEXT, "--html", page)[1])
    found = program.Page(page)
    assert found.loads == []
    words = found.words[found.words.index("Layers of bert.encoder.layer") :].split()
    shown = [word for word in words if re.fullmatch(r"[+-][\d.]+", word)]
    assert shown == [number for row in rows.values() for number in row]
    assert found.tags.count("details") == 2  # tokens and layers
    assert '<table class="layers summed">' in page.read_text("utf-8")
    assert PAGES <= set(re.split(r'[\n;"]+ *', page.read_text("utf-8")))
    run(*TEXT[:3], "--html", page)
    assert "h2" not in program.Page(page).tags


NUMBER = r"[+-]\d*\.\d+"
SEVERAL = ("explain", "embedded", "a fine film", "dull", "--layers")


def test_several_texts_are_one_page_and_a_picture_each(run, tmp_path):
    page, png = tmp_path / "page.html", tmp_path / "map.png"
    code, out, err = run(*SEVERAL, "--html", page, "--png", png)
    assert (code, err) == (0, "")
    found = program.Page(page)
    titles = ["attnlrp: why class 1, 'positive'?", "attnlrp: why class 0, 'negative'?"]
    places = [found.words.index(words) for words in ("attnlrp: 2 texts", *titles)]
    assert places == sorted(places)
    shown = [sorted(re.findall(NUMBER, words)) for words in found.words.split(titles[1])]
    assert all(len(words) > 39 for words in shown)
    of_one = [run("explain", "embedded", text, "--layers")[1] for text in SEVERAL[2:4]]
    for words, alone in zip(shown, of_one, strict=True):
        assert words == sorted(re.findall(NUMBER, alone))
    assert sorted(x.name for x in tmp_path.iterdir()) == ["map-1.png", "map-2.png", "page.html"]
    first, second = (tmp_path / f"map-{n}.png" for n in (1, 2))
    assert f"wrote {page}\nwrote {first}\nwrote {second}\n" in out
    assert first.read_bytes() != second.read_bytes()
    for text, path in zip(SEVERAL[2:4], (first, second), strict=True):
        run("explain", "embedded", text, "--layers", "--png", png)
        assert png.read_bytes() == path.read_bytes()


def test_many_files_are_told_in_one_line(run, tmp_path):
    png = tmp_path / "map.png"
    _, out, _ = run("explain", "embedded", *["dull"] * 11, "--layers", "--png", png)
    assert len(list(tmp_path.iterdir())) == 11
    assert out.count("wrote ") == 1
    assert "map-01.png, " in out


def test_markup_in_a_token_is_shown_and_not_obeyed(run, tmp_path):
    page, text = tmp_path / "page.html", "<b> [bold]x[/bold] [/]"
    code, out, err = run("explain", "embedded", text, "--layers", "--html", page)
    assert (code, err) == (0, "")
    ((_, rows),) = tables(out)
    assert {"<", "b", ">", "[", "bold", "/", "]"} <= set(rows)
    assert "b" not in program.Page(page).tags


def inside(**layers):
    relevance = {path.replace("_", "."): torch.tensor([row]) for path, row in layers.items()}
    return Attribution(torch.tensor([[1.0, 2.0]]), *[None] * 5, {}, inside=relevance)


def test_a_decoder_reads_the_text_behind_its_start():
    a = inside(
        encoder_layers_0=[0.0, 1.0], decoder_layers_0=[2.0, 3.0], decoder_layers_1=[4.0, 5.0]
    )
    encoder, decoder = layer_maps(a, ["not", "bad"], shifted=True)
    assert (encoder.tokens, encoder.columns) == (("not", "bad"), ("0",))
    assert (decoder.tokens, decoder.columns) == (("(start)", "not"), ("0", "1"))
    assert decoder.values.tolist() == [[2.0, 4.0], [3.0, 5.0]]


def test_rows_that_are_no_tokens_of_the_text_are_numbered():
    (found,) = layer_maps(inside(layers_0=[1.0, 2.0, 3.0]), ["not", "bad"])
    assert (found.tokens, found.columns) == (("0", "1", "2"), ("0",))


def test_calls_of_one_layer_are_columns():
    model, one = cases.one_text("albert")
    a = attribute(model, one, at=numbered_layers(model))
    (found,) = layer_maps(a, list("abcdef"))
    assert found.where == "albert.encoder.albert_layer_groups.0.albert_layers.0"
    assert found.columns == ("emb", "0", "1")
    assert torch.equal(torch.tensor(found.values.T), torch.cat([a.relevance, *a.inside.values()]))


NUMBERS = {
    0.004: "+.00", -0.004: "+.00", 0.07: "+.07", -0.994: "-.99", 0.996: "+1.0", -1.26: "-1.3",
    9.94: "+9.9", 9.96: "+10", 10.4: "+10", -120.4: "-120",
}  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_takes_four_characters(number):
    assert short(number) == NUMBERS[number]


LAYERS = {
    "t5": [f"transformer.{part}.block.{n}" for part in ("encoder", "decoder") for n in (0, 1)],
    "albert": ["albert.encoder.albert_layer_groups.0.albert_layers.0"],
    "distilbert": ["distilbert.transformer.layer.0", "distilbert.transformer.layer.1"],
    "gpt2": ["transformer.h.0", "transformer.h.1"],
}


@pytest.mark.parametrize("name", LAYERS)
def test_numbered_layers_are_found_and_not_those_within_them(name):
    assert numbered_layers(build(name, "sequence classification")) == LAYERS[name]


def test_a_model_without_numbered_layers_is_refused():
    with pytest.raises(ValueError, match="XLMForSequenceClassification has no layers with numbers"):
        numbered_layers(build("xlm", "sequence classification"))
