"""Special tokens, open choices and softmax errors by layer: each table equals a recomputation."""

import functools
import re
from dataclasses import replace

import numpy as np
import pytest

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP
from benchmarks.errors import UnavailableError
from benchmarks.experiments import open_choices, reproduce, rows, special_tokens, text
from benchmarks.experiments.maps import measured
from benchmarks.experiments.record import Request, experiment
from benchmarks.sources import models
from benchmarks.sources.data import unlabelled
from numeric import attribute
from numeric.evaluation.correlation import bootstrap_mean
from tests.support import one_by_one
from tests.support.one_by_one import CONTENT, close, mean

pytestmark = pytest.mark.filterwarnings("ignore::numeric.methods.amplification.AmplifiedRelevance")

LOO, LRP = "table2-sst2-loo", ("table2-sst2-attnlrp", "table2-sst2-cp-lrp")
KEPT = {
    "all": slice(None),
    "without [CLS]": slice(1, None),
    "without [SEP]": slice(-1),
    "without both": CONTENT,
}


# Special tokens


@pytest.fixture(scope="module")
def special(six_sentences):
    return special_tokens.special(one_by_one.measure([LOO, *LRP], six_sentences))


@pytest.mark.parametrize("tokens", KEPT)
def test_r_with_and_without_the_ends_is_the_mean_over_sentences(special, sentences, tokens):
    (row,) = [row for row in special.rows if row["tokens"] == tokens]
    ours = {
        m: [s.r(m.lower(), kept=KEPT[tokens]) for s in sentences] for m in ("AttnLRP", "CP-LRP")
    }
    for method, values in ours.items():
        close(row[method], mean(values))
    gap = bootstrap_mean(np.subtract(ours["CP-LRP"], ours["AttnLRP"]), seed=0)
    close([row["gap"], row["gap low"], row["gap high"]], [gap.mean, gap.low, gap.high])
    assert row["gap undefined"] == gap.undefined == (tokens == "without both")  # "dull"


@pytest.mark.parametrize("method", ["LOO", "AttnLRP", "CP-LRP"])
@pytest.mark.parametrize(("token", "place"), [("[CLS]", 0), ("[SEP]", -1)])
def test_shares_of_the_ends_in_absolute_relevance(special, sentences, method, token, place):
    chosen = (f"share of {token}", method)
    (row,) = [row for row in special.rows if (row["tokens"], row.get("method")) == chosen]
    shares = []
    for sentence in sentences:
        sizes = [abs(x) for x in sentence.relevance(method.lower())]
        shares.append(sizes[place] / sum(sizes))
    close(row["share"], mean(shares))


def test_the_note_says_how_much_of_the_gap_the_two_tokens_carry(special, sentences):
    gap = lambda s, kept: s.r("cp-lrp", kept=kept) - s.r("attnlrp", kept=kept)
    every, inner = (np.array([gap(s, kept) for s in sentences]) for kept in (slice(None), CONTENT))
    both = ~np.isnan(inner)  # all but "dull", so that the parts add up
    lost = bootstrap_mean((every - inner)[both], seed=0)
    every, inner = every[both], inner[both]
    assert lost.mean == pytest.approx(every.mean() - inner.mean())
    note, *undefined = special.notes
    assert "gap undefined in up to 1 examples (a constant map, or fewer" in " ".join(undefined)
    assert f"is {mean(every):+.3f} over all tokens and {mean(inner):+.3f} [" in note
    assert note.endswith(f"account for {lost.mean:+.3f} [{lost.low:+.3f}, {lost.high:+.3f}] of it.")


def test_texts_without_special_tokens_are_refused_before_anything_is_measured(tmp_path):
    request = lambda name: Request(
        classifier=models.load(name), data=unlabelled("two", ["anna pen", "anna"]), output=tmp_path
    )
    assert experiment("special").prepare(request("embedded")) == {}
    with pytest.raises(UnavailableError, match="2 texts begin or end with a word; leave the table"):
        experiment("special").prepare(request("embedded-lm"))


# Open choices: the references by really editing the ids


@pytest.fixture(scope="module")
def sensitivity(six_sentences):
    return open_choices.sensitivity(
        one_by_one.measure([LOO, *LRP, "sensitivity-sst2"], six_sentences)
    )


@functools.cache
def masked(sentence):
    mask = one_by_one.classifier().tokenizer.mask_token_id
    ids = sentence.ids
    return sentence.loo(lambda n: sentence.logits_of([*ids[:n], mask, *ids[n + 1 :]]))


@functools.cache
def deleted(sentence):
    """The classifier reads the row of [CLS], which cannot go: it is hidden from attention."""
    ids, inner = sentence.ids, sentence.everything - {0}
    without = lambda n: (
        sentence.logits_of([*ids[:n], *ids[n + 1 :]]) if n else sentence.logits(inner)
    )
    return sentence.loo(without)


@functools.cache
def difference(sentence):
    return sentence.loo(lambda n: sentence.logits(sentence.everything - {n}), contrast=True)


REFERENCES = {
    "attention mask": lambda s: s.relevance("loo"),
    "[MASK]": masked,
    "deletion": deleted,
    "logit difference": difference,
}


def explained(sentence, method, target=None, **options):
    target = sentence.target if target is None else target
    return attribute(sentence.model, sentence.inputs, method, target, **options).relevance[0]


def with_rules(composite, rules):
    """In the encoder: the first LayerNorm and the classifier keep their rule."""
    layers = dict.fromkeys(range(12), rules)
    return type(composite)(composite.name, composite.rules, layers)


CHANGES = {
    "as in Table 2": lambda s, c: explained(s, c),
    "LayerNorm: identity": lambda s, c: explained(
        s, with_rules(c, {kinds.LAYER_NORM: kinds.IDENTITY})
    ),
    "bias out, ε = 1e-6": lambda s, c: explained(
        s, with_rules(c, {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}), epsilon=1e-6
    ),
    "ε = 1e-6": lambda s, c: explained(s, c, epsilon=1e-6),
    "ε = 1e-3": lambda s, c: explained(s, c, epsilon=1e-3),
    "ε = 0.1": lambda s, c: explained(s, c, epsilon=0.1),
    "word share": lambda s, c: explained(s, c, share="word"),
    "logit difference": lambda s, c: explained(s, c) - explained(s, c, 1 - s.target),
}


def check_agreement(row, maps, *, skip=None):
    """One row of the table against r of every map with every reference, sentence by sentence."""
    for name, reference in REFERENCES.items():
        for tokens, kept in (("all", slice(None)), ("content", CONTENT)):
            key = f"{name} {tokens}"
            assert (key in row) == (name != skip)
            if key in row:
                pairs = zip(one_by_one.sentences(), maps, strict=True)
                close(row[key], mean(s.r(a, reference(s), kept=kept) for s, a in pairs))


@pytest.mark.parametrize("choice", CHANGES)
@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda c: c.name)
def test_every_choice_agrees_with_every_reference_as_one_sentence_at_a_time(
    sensitivity, sentences, composite, choice
):
    label = {"attnlrp": "AttnLRP", "cp-lrp": "CP-LRP"}[composite.name]
    row = found(sensitivity, label, choice)
    check_agreement(row, [CHANGES[choice](s, composite).tolist() for s in sentences])


def found(result, method, choice):
    (row,) = [row for row in result.rows if (row["method"], row["choice"]) == (method, choice)]
    return row


@pytest.mark.parametrize("choice", REFERENCES)
def test_the_references_agree_with_each_other_as_one_sentence_at_a_time(
    sensitivity, sentences, choice
):
    labels = {"attention mask": "as in Table 2", "[MASK]": "[MASK] in place"}
    row = found(sensitivity, "LOO", labels.get(choice, choice))
    check_agreement(row, [REFERENCES[choice](s) for s in sentences], skip=choice)


def test_all_choices_are_checked_and_their_maps_differ(sensitivity):
    shown = {(row["method"], row["choice"]) for row in sensitivity.rows}
    references = {"as in Table 2", "[MASK] in place", "deletion", "logit difference"}
    wanted = {(method, choice) for method in ("AttnLRP", "CP-LRP") for choice in CHANGES}
    assert shown == wanted | {("LOO", choice) for choice in references}
    values = [row["deletion all"] for row in sensitivity.rows if "deletion all" in row]
    assert len({round(value, 12) for value in values}) == len(values)


def test_the_settings_say_which_rows_ran_in_which_dtype(sensitivity, tmp_path):
    assert sensitivity.settings["dtype"] == "torch.float64"  # all of them
    found = [rows.load(LOO), replace(rows.load(LRP[0]), dtype="float64"), rows.load(LRP[1])]
    few, loaded = one_by_one.TEXTS.first(2), models.load()
    runs = [text.run(replace(r, curves=False), loaded, few, output=tmp_path) for r in found]
    assert measured(runs).settings["dtype"] == (
        f"torch.float32: {LOO}, {LRP[1]}; torch.float64: {LRP[0]}"
    )


def said_of(note):
    """The choices above, below and undecided of a note."""
    parts = re.fullmatch(r"Over .* with: (.*); below it with: (.*); undecided with: (.*)\.", note)
    return [set(part.split("; ")) - {"none"} for part in parts.groups()]


def test_notes_of_open_choices_name_those_with_which_cp_lrp_is_ahead(sensitivity):
    for note, tokens in zip(sensitivity.notes, ("all", "content"), strict=False):
        key = f"attention mask {tokens}"
        gap = {
            choice: found(sensitivity, "CP-LRP", choice)[key]
            - found(sensitivity, "AttnLRP", choice)[key]
            for choice in CHANGES
        }
        ahead, behind, neither = said_of(note)
        assert sorted([*ahead, *behind, *neither]) == sorted(CHANGES)
        assert all(gap[choice] > 0 for choice in ahead)
        assert all(gap[choice] < 0 for choice in behind)


def test_a_choice_whose_interval_holds_0_is_undecided():
    gaps = {"more": 0.2, "less": -0.2, "alike": 0.0}
    chance, r = np.random.default_rng(0), {}
    for choice, gap in gaps.items():
        base = chance.normal(size=30)
        for method, more in (("AttnLRP", 0), ("CP-LRP", gap)):
            values = base + more + 0.1 * chance.normal(size=30)
            r[method, choice] = {f"r {tokens}": values for tokens in ("all", "content")}
    for note in open_choices._notes(r):
        assert said_of(note) == [{"more"}, {"less"}, {"alike"}]


# All tables


def test_each_table_measures_the_rows_it_needs_once(monkeypatch, tmp_path):
    class Enough(Exception):
        pass

    def stop(_runs):
        raise Enough

    asked = []
    monkeypatch.setattr(text, "run", lambda row, *_, **__: asked.append(row.name) or row)
    monkeypatch.setattr(reproduce, "measured", stop)
    wanted = {
        "table2": {name for name in rows.names() if name.startswith("table2-imdb-")},
        "special": {"table2-imdb-loo", "table2-imdb-attnlrp", "table2-imdb-cp-lrp"},
        "figure2": {"table2-imdb-loo", "figure2-imdb", "figure2-imdb-identity"},
        "softmax": {"table2-imdb-loo", "figure2-imdb", "softmax-imdb"},
    }
    texts = one_by_one.data.Texts("imdb", ("film",), (1,), "invented", "IMDB", 16)
    request = Request(classifier=one_by_one.classifier(), data=texts, output=tmp_path)
    for table, names in wanted.items():
        asked.clear()
        with pytest.raises(Enough):
            reproduce.on_texts(experiment(table), request)
        assert sorted(asked) == sorted(names)
    asked.clear()
    runs = reproduce.Runs(reproduce.needed_rows(request, wanted))
    assert [{row.name for row in runs.of(x, request)} for x in wanted] == [*wanted.values()]
    assert sorted(asked) == sorted(set().union(*wanted.values()))  # once for all tables
    assert not runs.held
