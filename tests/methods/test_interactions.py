"""Interactions of pairs are the plain loop; groups are left out as a whole; estimates are told."""

import io
import re
from itertools import combinations

import numpy as np
import pytest
import torch
from rich.console import Console

from benchmarks.sources import models
from numeric import Interactions, attribute, interactions
from numeric.methods import pair_losses
from numeric.results import pictures, render
from numeric.targets import logit
from tests.support.cases import close
from tests.support.traces import assert_same, snapshot

TEXTS = {
    "embedded": "not a bad film, but unforgettably dull",
    "embedded-lm": "anna apple bert pen carl map ; bert",
    "embedded-english": "Anna put the key in the box. The key is in the",
}
UNITS = {"embedded": "word", "embedded-lm": "token", "embedded-english": "word"}


@pytest.fixture(scope="module", params=TEXTS)
def each_model(request):
    return models.load(request.param)


@pytest.fixture(scope="module")
def exact(each_model):
    return run(each_model)


def run(loaded, text=None, **options):
    text = TEXTS[loaded.name] if text is None else text
    return interactions(loaded.model, loaded.tokenizer, text, **options)


def plain(loaded, text, hidden, target):
    """The logit of one copy that does not see the columns ``hidden``, by the model alone."""
    batch = loaded.tokenizer([text], return_tensors="pt")
    batch["attention_mask"][0, list(hidden)] = 0
    batch["position_ids"] = torch.arange(batch["input_ids"].shape[1])[None]
    with torch.no_grad():
        logits = loaded.model(**batch).logits[0]
    return (logits if logits.ndim == 1 else logits[-1])[target].item()


def columns(loaded, text, found):
    """The columns of every part, by the names of the parts alone."""
    ids = loaded.tokenizer([text])["input_ids"][0]
    if found.options["by"] == "token":
        return [[n] for n in range(len(ids))]
    parts, n = [], 0
    for name in found.names:
        first = n
        squeezed = re.sub(r"\s", "", name)
        while re.sub(r"\s", "", loaded.tokenizer.decode(ids[first:n])) != squeezed or n == first:
            n += 1
        parts.append([*range(first, n)])
    assert n == len(ids)
    return parts


@pytest.mark.parametrize("by", ["token", "word"])
def test_pairs_parts_and_groups_are_the_plain_loop(each_model, by):
    text = TEXTS[each_model.name]
    found = run(each_model, by=by)
    target = int(found.target[0])
    own = columns(each_model, text, found)
    whole = plain(each_model, text, [], target)

    def lost(parts):
        return whole - plain(each_model, text, [column for n in parts for column in own[n]], target)

    assert abs(found.logit[0] - whole) < 1e-4
    alone = [lost([n]) for n in range(len(own))]
    close(found.relevance[0], torch.tensor(alone), tolerance=1e-4)
    for i, j in list(combinations(range(len(own)), 2))[::3]:
        want = alone[i] + alone[j] - lost([i, j])
        assert abs(found.pairs[i, j] - want) < 1e-4
    for _, parts, loss in found.tree(share=0.01):
        assert abs(lost(parts) - loss) < 1e-4
    members = pair_losses.nodes(found.details["merges"])
    for node, loss in zip(members.tolist(), found.details["losses"].tolist(), strict=True):
        parts = [n for n, inside in enumerate(node) if inside]
        assert loss != loss if len(parts) == len(own) else abs(lost(parts) - loss) < 1e-4


def test_interactions_are_symmetric_and_linear_in_the_target(each_model):
    one, other = (run(each_model, target=logit(n)) for n in (0, 1))
    both = run(each_model, target=logit(1) - logit(0))
    assert torch.equal(one.pairs, one.pairs.mT)
    assert (one.pairs.diagonal() == 0).all()
    close(both.pairs, other.pairs - one.pairs, tolerance=1e-4)


def test_pairs_explain_all_texts_without_two_parts(each_model):
    """Leave-One-Out and pairs determine the logit where at most two parts are missing."""
    found = run(each_model, by=UNITS[each_model.name])
    count = len(found.names)
    sets = torch.eye(count, dtype=torch.bool)[:, None] | torch.eye(count, dtype=torch.bool)
    sets = sets.flatten(0, 1)
    members = pair_losses.nodes(found.details["merges"])
    alone = found.relevance[0]
    _, _, by_pairs = pair_losses.predicted(
        sets, alone, found.pairs, members, found.details["losses"]
    )
    twice = (alone[:, None] + alone - found.pairs).fill_diagonal_(0) + alone.diag()
    close(by_pairs, twice.flatten(), tolerance=1e-4)


def test_a_short_text_is_explained_by_its_pairs(loaded):
    found = run(loaded, "not a bad film")
    assert abs(found.explained["pairs"] - 1) < 1e-6
    assert found.explained["parts"] < found.explained["groups"] < 1
    (first, second, value), *_ = found.largest()
    assert (found.names[first], found.names[second]) == ("not", "bad")
    assert value > 10


def test_estimates_of_all_pairs_are_exact(each_model, exact):
    count = len(exact.names)
    found = run(each_model, pairs="estimated", budget=count * count)
    close(found.pairs, exact.pairs, tolerance=1e-4)
    assert found.details["by_loss"].sum() == count * (count - 1)


def test_estimates_are_differences_of_mask_relevance(each_model, exact):
    """Pairs that were left out are exact; every other one is an estimate, and is told apart."""
    found = run(each_model, pairs="estimated")
    text, target = TEXTS[each_model.name], int(found.target[0])
    batch = dict(each_model.tokenizer([text], return_tensors="pt"))
    read = 0 if each_model.name == "embedded" else len(found.names) - 1
    nowhere = torch.full(
        (len(found.names),), torch.nan
    )  # a batch without the read token is refused
    by_mask = []
    for hidden in (None, *range(len(found.names))):
        mask = torch.ones_like(batch["input_ids"])
        mask[0, [] if hidden is None else hidden] = 0
        own = lambda batch: attribute(
            each_model.model, batch, "mask-relevance", logit_at(each_model, target)
        )
        seen = batch | {"attention_mask": mask}
        by_mask.append(nowhere if hidden == read else own(seen).relevance[0])
    change = by_mask[0] - torch.stack(by_mask[1:])
    want = ((change + change.mT) / 2).fill_diagonal_(0)
    known = found.details["by_loss"] == 1
    assert known.sum() == 2 * len(found.names)
    close(found.pairs[known], exact.pairs[known], tolerance=1e-4)
    others = ~known & want.isfinite()
    assert others.any()
    close(found.pairs[others], want[others].to(found.pairs), tolerance=1e-4)


def logit_at(loaded, target):
    if loaded.name == "embedded":
        return logit(target)
    last = len(loaded.tokenizer([TEXTS[loaded.name]])["input_ids"][0]) - 1
    return logit(target, at=last)


def test_tokens_behind_the_row_that_is_read_do_nothing(lm):
    found = run(lm, target=logit(5, at=5))
    assert found.pairs[:5, :5].abs().max() > 0
    assert found.pairs[6:].abs().max() < 1e-5
    assert found.relevance[0, 6:].abs().max() < 1e-5


def test_the_model_stays_as_it_was(each_model):
    before = snapshot(each_model.model)
    run(each_model, pairs="estimated")
    assert_same(before, snapshot(each_model.model))


def test_groups_are_a_partition_that_grows_finer(exact):
    sizes = []
    for share in (0.01, 0.1, 0.25, 1):
        groups = exact.groups(share)
        assert sorted(n for parts, _ in groups for n in parts) == [*range(len(exact.names))]
        sizes.append(len(groups))
        several = [len(parts) > 1 for parts, _ in groups]
        assert several == sorted(several, reverse=True)
        rows = [(depth, set(parts)) for depth, parts, _ in exact.tree(share)]
        for n, (depth, parts) in enumerate(rows):
            if len(parts) > 1:  # the two nodes one deeper that come next
                end = next((m for m in range(n + 1, len(rows)) if rows[m][0] <= depth), len(rows))
                one, other = (x for d, x in rows[n + 1 : end] if d == depth + 1)
                assert one | other == parts
                assert not one & other
    assert sizes == sorted(sizes)
    with pytest.raises(ValueError, match="share=0: pass a number above 0"):
        exact.groups(0)


def test_a_table_of_groups_says_where_it_ends_and_which_word_is_meant(loaded):
    """Lines that do not fit stay behind their indent; a word that occurs twice has its position."""
    found = run(loaded, "The plot is thin and the jokes are old, but the acting is a joy.")
    nodes = found.tree(share=0.25)
    several = [n for n, x in enumerate(found.names) if found.names.count(x) > 1]
    names = [found.name_of([n]) for n in range(len(found.names))]
    assert several
    assert len({*names}) == len(names)
    for count in (3, len(nodes)):
        console = Console(width=60, record=True, file=io.StringIO())
        console.print(found.group_table(count))
        *_, last = console.export_text().rstrip().splitlines()
        cut = count < len(nodes)
        assert (last.strip() == f"… and {len(nodes) - 3} more") == cut
    everything = found.name_of(range(len(names)))
    page = found.html()
    assert all(name in everything for name in names)
    assert all(f">{found.name_of(parts)}<" in page for _, parts, _ in nodes)


def test_a_sentence_never_reaches_into_the_second_text(loaded):
    """A pair has its sentences, and the separator, each in one text."""
    found = run(loaded, ("a film without an end", "so it goes. twice"), by="sentence")
    assert found.names == ["[CLS] a film without an end [SEP]", "so it goes.", "twice [SEP]"]


def test_seeds_change_the_random_quarters_alone(loaded):
    text = "The plot is thin, but the acting is a quiet joy."
    one, same, other = (run(loaded, text, seed=n) for n in (0, 0, 1))
    assert one.explained == same.explained != other.explained
    assert torch.equal(one.pairs, other.pairs)


def test_forms(loaded, tmp_path):
    found = run(loaded, "not <b>a</b> bad film")
    page = found.html()
    assert "<b>a" not in page
    assert "&lt;" in page
    assert '<table class="layers">' in page  # no row is a sum
    assert found.png().startswith(b"\x89PNG")
    found.save(tmp_path / "found.safetensors")
    again = Interactions.load(tmp_path / "found.safetensors")
    assert again.groups() == found.groups()
    assert again.html() == page
    table = found.to_pandas()
    count = len(found.names)
    assert len(table) == count * (count - 1) // 2
    assert table["by_loss"].all()
    found.to_parquet(tmp_path / "pairs.parquet")
    import pandas as pd

    assert pd.read_parquet(tmp_path / "pairs.parquet").equals(table)
    with pytest.raises(ValueError, match="no sums of losses of tokens"):
        found.by("word", None)


def test_a_picture_underlines_words_against_the_target(loaded, monkeypatch):
    """The legend of a picture with arcs says so."""
    lines = []
    monkeypatch.setattr(pictures._Page, "line", lambda _page, x, _y: lines.append(x))
    found = run(loaded, "The plot is thin, but the acting is a joy.", target=0)
    found.png()
    against = render.underlined(found.relevance[0].tolist())
    assert len(lines) == sum(against) > 0
    assert all(start < end for start, end in lines)


def test_whole_numbers_of_numpy_are_taken(loaded, tmp_path):
    of_type = lambda kind: {"budget": kind(2), "seed": kind(1), "batch_size": kind(8)}
    found, same = (run(loaded, pairs="estimated", **of_type(kind)) for kind in (np.int64, int))
    assert found.pairs.equal(same.pairs)
    found.save(tmp_path / "found")
    assert Interactions.load(tmp_path / "found").options == same.options


FAULTS = {
    "options": (
        {"by": "letter", "pairs": "some", "budget": -1, "seed": 0.5},
        "by='letter'.*\npairs='some'.*\nbudget=-1.*\nseed=0.5",
    ),
    "a seed that torch does not take": ({"seed": 2**64}, f"seed={2**64}: pass a whole number"),
    "a budget of exact pairs": ({"budget": 3}, "budget=3: exact pairs leave out every pair"),
    "a batch size": ({"batch_size": 0}, "batch_size=0"),
    "one sentence": ({"by": "sentence", "text": "a film"}, "1 sentence: without"),
    "no text": ({"text": ""}, "text"),
    "two texts": ({"text": ["a film", "a play"]}, "one text"),
    "two rows": ({"text": {"input_ids": torch.ones(2, 5).long()}}, "inputs of one text, without"),
    "no ids": ({"text": {"attention_mask": torch.ones(1, 5)}}, "inputs of one text, without"),
    "padding": (
        {"text": {"input_ids": torch.ones(1, 5).long(), "attention_mask": torch.eye(5)[:1]}},
        "inputs of one text, without padding",
    ),
    "a class": ({"target": 7}, r"target \[7\] out of range"),
}


@pytest.mark.parametrize(("options", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_message(loaded, options, said):
    with pytest.raises(ValueError, match=said):
        run(loaded, **options)
