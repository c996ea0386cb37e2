"""Correlation within attention rows: what theorem 59 predicts at equal logits, and by a loop."""

import numpy as np
import pytest

from benchmarks.experiments import softmax_by_head
from benchmarks.sources import data, models
from numeric.evaluation.correlation import pearson
from numeric.evaluation.softmax_errors import row_messages
from tests.support import cases


def alone(model):
    """The rows of both layers of the first text of a batch, which has no padding."""
    batch = {key: x[:1] for key, x in cases.tiny_batch().items()}
    return [(m, softmax_by_head.rows_of(m)) for m in row_messages(model, batch)]


def with_equal_logits(c):
    """A tiny BERT whose queries and keys are the same for every token."""
    model = cases.tiny_bert()
    for name, parameter in model.named_parameters():
        if "attention.self.query" in name or "attention.self.key" in name:
            parameter.data.zero_()
            if name.endswith("bias"):
                parameter.data[:] = 1
            if name.endswith("key.bias"):
                size = model.config.hidden_size // model.config.num_attention_heads
                parameter.data *= c / size**0.5
    return model


@pytest.mark.parametrize("c", [-3.0, 0.5])
def test_equal_logits_do_to_attnlrp_what_theorem_59_says_and_nothing_to_cp_lrp(c):
    for _, rows in alone(with_equal_logits(c)):
        np.testing.assert_allclose(rows["logit"], c)
        np.testing.assert_allclose(rows["flatness"], 1)
        read = ~np.isnan(rows["CP-LRP"])  # of the last layer, the first row alone
        assert read[:, 0].all()
        np.testing.assert_allclose(rows["CP-LRP"][read], 1)
        np.testing.assert_allclose(rows["AttnLRP"][read], np.sign(1 + c))


def test_r_is_that_of_one_row_at_a_time():
    for m, rows in alone(cases.tiny_bert()):
        for head, query in ((0, 0), (1, 0)):
            one = lambda x, at=(0, head, query): x[at][None].numpy()
            logits, weights, removal, keep = map(one, (m.logits, m.weights, m.removal, m.keep))
            for rule, r in (
                ("CP-LRP", weights * one(m.u)),
                ("AttnLRP", weights * one(m.u) + logits * removal * (1 - weights)),
            ):
                assert rows[rule][head, query] == pytest.approx(pearson(r, removal, keep)[0])
            assert rows["flatness"][head, query] == pytest.approx(
                -(weights * np.log(weights)).sum() / np.log(keep.sum())
            )


def test_bins_hold_every_row_once_and_average_over_texts():
    classifier, texts = models.load("embedded"), data.load("embedded").first(3)
    found = list(softmax_by_head.measured(classifier, texts))
    lines = list(softmax_by_head.tables(found))
    shares = [float(line.split("|")[2]) for line in lines[2 : lines.index("")]]
    assert sum(shares) == pytest.approx(1, abs=0.004)
    everything = softmax_by_head.within(found, "flatness", 0, 1)
    by_text = [np.nanmean(rows["CP-LRP"]) for rows in found]
    assert everything["CP-LRP"] == pytest.approx(np.mean(by_text))
    heads = softmax_by_head.by_head(found)["CP-LRP"]
    layers = classifier.model.config.num_hidden_layers
    assert heads.shape == (layers, classifier.model.config.num_attention_heads)
    first = [np.nanmean(rows["CP-LRP"][0, 1]) for rows in found]
    assert heads[0, 1] == pytest.approx(np.mean(first))
