"""Table 2 and the layer sweep equal a recomputation, one sentence and one token at a time."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from axioms.composites import ATTNLRP, CP_LRP, IDENTITY_SOFTMAX, bypass_softmax
from benchmarks.experiments import figure2, reproduce, rows, table2, text
from benchmarks.experiments import maps as stored
from benchmarks.experiments.record import Request, experiment
from benchmarks.sources import models
from numeric import attribute
from tests.support import cases, one_by_one
from tests.support.one_by_one import CONTENT, LABELS, METHODS, OPTIONS, PHRASES, mean

TABLE2 = [f"table2-sst2-{method}" for method in METHODS.values()]


FIGURE2 = ["table2-sst2-loo", "figure2-sst2", "figure2-sst2-identity"]


@pytest.fixture(scope="module")
def measured(six_sentences):
    return one_by_one.measure(TABLE2, six_sentences)


@pytest.fixture(scope="module")
def table(measured):
    return table2.table2(measured)


@pytest.fixture(scope="module")
def layers(six_sentences):
    return figure2.figure2(one_by_one.measure(FIGURE2, six_sentences))


def test_shards_hold_every_text_once_sorted_by_length(monkeypatch):
    classifier = one_by_one.classifier()
    lengths = [sentence.count for sentence in one_by_one.sentences()]
    limits = {"texts": (4, 1, 6, 32), "tokens": (30, 1), "padding": (0, 1, 5)}
    for limit in [(name, most) for name in limits for most in limits[name]]:
        most = {"texts": 32, "tokens": 4096, "padding": 4096} | dict([limit])
        monkeypatch.setattr(text, "SHARD", tuple(most.values()))
        shards = text.shards(classifier, one_by_one.TEXTS)
        assert sorted(n for shard in shards for n in shard) == list(range(len(PHRASES)))
        ordered = [lengths[n] for shard in shards for n in shard]
        assert ordered == sorted(ordered)

        def fits(shard, most=most):
            padded = len(shard) * max(lengths[n] for n in shard)
            sizes = len(shard), padded, padded - sum(lengths[n] for n in shard)
            return all(x <= y for x, y in zip(sizes, most.values(), strict=True))

        assert all(len(shard) == 1 or fits(shard) for shard in shards)
        for one, following in pairwise(shards):  # no part is needlessly small
            assert not fits([*one, following[0]])


def test_every_text_has_its_own_tokens(measured):
    for maps in measured.maps.values():
        for n, phrase in enumerate(PHRASES):
            words = len(re.findall(r"\w+|[.,]", phrase))
            assert maps.content[n].sum() >= words  # a word is one piece or more
            assert maps.present[n].sum() == maps.content[n].sum() + 2
            assert not maps.relevance[n][~maps.present[n]].any()


def test_the_rows_come_in_the_papers_order_each_before_the_papers(table):
    assert [row["method"] for row in table.rows[::2]] == list(METHODS)
    for row in table.rows[1::2]:
        assert row.keys() == {"method", "r all, sum to one", "LeRF", "MoRF", "Δ"}
        assert row["method"] == "  paper"


def by_hand(sentences, method):
    """All statistics of a method, one sentence at a time."""
    want = {
        "r all": mean(s.r(method) for s in sentences),
        "r content": mean(s.r(method, kept=CONTENT) for s in sentences),
        "r all, sum to one": mean(s.r(method, normalised=True) for s in sentences),
        "r content, sum to one": mean(
            s.r(method, kept=CONTENT, normalised=True) for s in sentences
        ),
        "tau all": mean(s.tau(method) for s in sentences),
        "tau content": mean(s.tau(method, kept=CONTENT) for s in sentences),
    }
    for name in ("LeRF", "MoRF"):
        curves = [s.curve(method, most_first=name == "MoRF") for s in sentences]
        want[name] = mean(mean(curve) for curve in curves)
        want[f"AOPC {name}"] = mean(mean(curve[0] - x for x in curve) for curve in curves)
    return want | {"Δ": want["LeRF"] - want["MoRF"]}


@pytest.mark.parametrize("label", METHODS)
def test_every_row_of_table_2_is_the_mean_of_what_one_sentence_at_a_time_gives(
    table, sentences, label
):
    method = METHODS[label]
    row = next(row for row in table.rows if row["method"] == label)
    want = by_hand(sentences, method)
    want["flips"] = mean(s.r(method) * s.r(method, normalised=True) < 0 for s in sentences)
    for key, value in want.items():
        assert row[key] == pytest.approx(value, abs=1e-9), key
        assert row[f"{key} low"] <= row[key] <= row[f"{key} high"], key
        undefined = 1 if "content" in key else 0  # "dull" has one content token
        assert row[f"{key} undefined"] == undefined, key
    statistics = {key for key in row if not key.endswith((" low", " high", " undefined"))}
    assert statistics == {"method", *want}


def test_a_note_says_what_the_steps_of_integrated_gradients_leave(table, measured, sentences):
    gaps = []
    for s in sentences:
        method = METHODS["IG"]
        a = attribute(s.model, s.inputs, method, s.target, **OPTIONS[method])
        words = s.model.get_input_embeddings()(s.inputs["input_ids"])
        rest = {key: value for key, value in s.inputs.items() if key != "input_ids"}
        with torch.no_grad():
            start = s.model(inputs_embeds=torch.zeros_like(words), **rest).logits[0, s.target]
        gaps.append(float(a.logit[0] - start - a.relevance.sum()))
    stored = measured.maps["IG"].values["completeness_gap"]
    assert stored == pytest.approx(gaps, abs=1e-9)
    (note,) = [note for note in table.notes if "completeness gap" in note]
    start = "IG with 16 steps, and up to 128 where 0.02 logits or more are left: "
    assert note.startswith(start)
    assert f"gap of {mean(map(abs, gaps)):.3f} logits in the mean over texts, " in note
    assert note.endswith(f", {max(map(abs, gaps)):.3f} at most.")
    assert all("completeness_gap" not in measured.maps[m].values for m in METHODS if m != "IG")


def test_per_example_values_stand_beside_their_own_example(table, sentences):
    columns = table.examples
    assert len(columns["example"]) == len(METHODS) * len(PHRASES)
    for n, example in enumerate(columns["example"]):
        sentence, method = sentences[example], METHODS[columns["method"][n]]
        assert columns["label"][n] == LABELS[example]
        assert columns["target"][n] == sentence.target
        assert columns["tokens"][n] == sentence.count
        assert columns["logit"][n] == pytest.approx(sentence.logit(sentence.everything))
        assert columns["r all"][n] == pytest.approx(sentence.r(method), abs=1e-9)
        assert columns["tau all"][n] == pytest.approx(sentence.tau(method), abs=1e-9)
        lerf = mean(sentence.curve(method, most_first=False))
        assert columns["LeRF"][n] == pytest.approx(lerf, abs=1e-9)


@pytest.mark.filterwarnings("ignore::numeric.methods.amplification.AmplifiedRelevance")
@pytest.mark.parametrize("chosen", [(), (0,), (11,), (0, 1, 2), (9, 10, 11), range(12)])
def test_a_mix_of_layers_is_the_mean_of_what_one_sentence_at_a_time_gives(
    layers, sentences, chosen
):
    composite = bypass_softmax(chosen) if chosen else ATTNLRP
    names = {
        (): ("AttnLRP", 0),
        (0,): ("single layer", 1),
        (11,): ("single layer", 12),
        (0, 1, 2): ("front to back", 3),
        (9, 10, 11): ("back to front", 10),
        range(12): ("back to front", 1),
    }
    row = row_of(layers, *names[chosen])
    want = by_hand(sentences, composite)
    within = bypass_softmax(chosen, IDENTITY_SOFTMAX) if chosen else IDENTITY_SOFTMAX
    want["identity r content"] = mean(s.r(within, kept=CONTENT) for s in sentences)
    want["identity r all, sum to one"] = mean(s.r(within, normalised=True) for s in sentences)
    assert row["layers"] == len(chosen)
    for key, value in want.items():
        assert row[key] == pytest.approx(value, abs=1e-9), key


def row_of(result, order, layer):
    (row,) = [row for row in result.rows if (row["order"], row["layer"]) == (order, layer)]
    return {key: value for key, value in row.items() if key not in ("order", "layer")}


def ours(result, order, layer):
    row = row_of(result, order, layer)
    return {key: value for key, value in row.items() if not key.startswith("paper")}


def test_a_note_compares_the_shape_of_the_sweep_with_the_papers(layers):
    (note,) = [note for note in layers.notes if note.startswith("As ratios to CP-LRP")]
    cells, key = layers.rows[1:], "r all, sum to one"
    whole = row_of(layers, "front to back", 12)
    for rule, told in (("", "from Eq. 5"), ("identity ", "from the identity rule")):
        gaps = [
            c[rule + key] / whole[key] - c[f"paper {key}"] / whole[f"paper {key}"] for c in cells
        ]
        assert len(gaps) == 36
        assert f" {mean(gap**2 for gap in gaps) ** 0.5:.2f} {told}" in note


def test_the_ends_of_the_three_orders_meet(layers, sentences):
    assert ours(layers, "front to back", 12) == ours(layers, "back to front", 1)
    assert ours(layers, "front to back", 1) == ours(layers, "single layer", 1)
    assert ours(layers, "back to front", 12) == ours(layers, "single layer", 12)
    want = mean(s.r(CP_LRP) for s in sentences)
    assert ours(layers, "front to back", 12)["r all"] == pytest.approx(want, abs=1e-9)
    assert len(layers.rows) == 1 + 3 * 12
    assert len({row["r all"] for row in layers.rows}) == 1 + 3 * 12 - 3  # no other two are equal


def test_every_cell_of_the_sweep_stands_beside_the_papers(layers):
    paper = rows.load("figure2-sst2").paper
    for row in layers.rows[1:]:
        theirs = {key: row[f"paper {key}"] for key in ("r all, sum to one", "LeRF", "MoRF", "Δ")}
        assert theirs == {key: paper[row["order"]][key][row["layer"] - 1] for key in theirs}
    assert not any(key.startswith("paper") for key in layers.rows[0])


def test_the_paper_has_no_numbers_for_a_model_of_another_depth():
    columns = rows.load("figure2-sst2").paper["single layer"]
    assert figure2._paper_cell(columns, 2, 6) == {}
    assert figure2._paper_cell(columns, 2, 12)["paper LeRF"] == 0.89


def test_notes_of_the_sweep_name_the_layers_whose_paired_interval_excludes_0(layers, sentences):
    for note, kept in zip(layers.notes[:2], (slice(None), CONTENT), strict=True):
        gaps = {}
        for n in range(12):
            pairs = [
                (s.r(bypass_softmax([n]), kept=kept), s.r(ATTNLRP, kept=kept)) for s in sentences
            ]
            gaps[n + 1] = table2.bootstrap_mean([a - b for a, b in pairs], seed=0)
        named = lambda ns: f"layers {', '.join(map(str, ns))}" if ns else "no layer"
        up = named([n for n in gaps if gaps[n].low > 0])
        down = named([n for n in gaps if gaps[n].high < 0])
        best = max(gaps, key=lambda n: gaps[n].mean)
        assert f"closer to Leave-One-Out in {up}, and farther in {down} (paired 95" in note
        assert f"; most in layer {best}: {gaps[best].mean:+.3f} [" in note


def test_the_program_measures_the_same_in_float32(table, tmp_path):
    loaded = models.load()
    request = Request(classifier=loaded, data=one_by_one.TEXTS, output=tmp_path)
    result = reproduce.on_texts(experiment("table2"), request)
    names = [name for name in rows.names() if name.startswith("table2-sst2-")]
    assert {path.name for path in tmp_path.iterdir()} == {n.replace("sst2", "six") for n in names}
    assert result.name == "table2-six"
    assert result.settings["dtype"] == "torch.float32"
    assert result.settings["model_sha256"] == loaded.sha256
    for row, exact in zip(result.rows, table.rows, strict=False):  # the paper's come first
        for key in ("r all", "r content", "tau all", "Δ"):
            if key in row:
                assert row[key] == pytest.approx(exact[key], abs=1e-3)


def test_rows_about_other_texts_are_not_put_in_one_table(tmp_path):
    fewer = one_by_one.TEXTS.first(2)
    found = []
    for name, texts in (("table2-sst2-loo", one_by_one.TEXTS), ("table2-sst2-attnlrp", fewer)):
        row = rows.load(name)
        found.append(text.run(row, one_by_one.classifier(), texts, output=tmp_path))
    with pytest.raises(ValueError, match="table2-sst2-attnlrp and table2-sst2-loo are not about"):
        stored.measured(found)


def test_a_model_that_no_rule_covers_is_refused_before_anything_runs():
    model = cases.tiny_bert(vocab_size=8192, max_position_embeddings=64)
    model.bert.encoder.layer[1].intermediate.intermediate_act_fn = cases.Exponential().eval()
    other = replace(one_by_one.classifier(), model=model, name="other")
    with pytest.raises(LookupError, match=r"exp, outside of a softmax .*layer\.1"):
        text.check(other, one_by_one.TEXTS)
    text.check(one_by_one.classifier(), one_by_one.TEXTS)
