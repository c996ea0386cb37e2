"""Texts by name: embedded, from a folder, from a Hub layout; every refusal names the fault, the
place and the next step."""

import gzip
import json
import zlib
from dataclasses import replace

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.sources import data, models

ROWS = [("the soup was warm", 1), ("a dull, grey parade", 0), ("naïve but kind", 1)]


def tsv(rows=ROWS, header="sentence\tlabel"):
    return "\n".join([header, *(f"{text}\t{label}" for text, label in rows)]) + "\n"


def jsonl(rows):
    return "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)


def sst2(folder, content):
    path = folder / "sst2_dev.tsv.gz"
    path.write_bytes(gzip.compress(content.encode()))
    return path


def test_embedded_sentences_come_in_file_order_and_alternate_in_label():
    texts = data.load()
    lines = data.EMBEDDED.read_text(encoding="utf-8").splitlines()[1:]
    assert [f"{t}\t{n}" for t, n in zip(texts.texts, texts.labels, strict=True)] == [
        line.rpartition("\t")[0] for line in lines
    ]
    assert texts.labels[:4] == (1, 0, 1, 0)
    assert (texts.name, texts.origin, texts.paper, texts.chunk) == ("embedded",) * 2 + ("SST", 1)


@pytest.mark.parametrize("packed", [True, False])
def test_sst2_is_read_from_a_folder_packed_or_not(tmp_path, packed):
    if packed:
        sst2(tmp_path, tsv())
    else:
        (tmp_path / "sst2_dev.tsv").write_text(tsv(), encoding="utf-8")
    texts = data.load("sst2", data_dir=tmp_path)
    assert list(zip(texts.texts, texts.labels, strict=True)) == ROWS
    assert texts.origin == ("sst2_dev.tsv.gz" if packed else "sst2_dev.tsv")


def test_texts_to_learn_from_are_not_those_to_be_judged_by(tmp_path):
    sst2(tmp_path, tsv())
    (tmp_path / "sst2_train.tsv").write_text(tsv(ROWS[:1]), encoding="utf-8")
    texts = data.load("sst2", data_dir=tmp_path, training=True)
    assert (texts.texts, texts.origin) == (("the soup was warm",), "sst2_train.tsv")
    assert data.load("sst2", data_dir=tmp_path).origin == "sst2_dev.tsv.gz"
    with pytest.raises(ValueError, match="the embedded sentences are no texts to learn from"):
        data.load(training=True)


def test_quotes_in_sst2_belong_to_the_text(tmp_path):
    sst2(tmp_path, tsv([('he said "no', 0), ('"yes" was mine', 1)]))
    assert data.load("sst2", data_dir=tmp_path).texts == ('he said "no', '"yes" was mine')


def test_imdb_is_read_from_a_folder_with_labels_in_turn_and_in_chunks_of_16(tmp_path):
    rows = [("n1", 0), ("n2", 0), ("n3\nwith a line break", 0), ("p1", 1), ("p2", 1)]
    (tmp_path / "imdb_test.jsonl.gz").write_bytes(gzip.compress(jsonl(rows).encode()))
    texts = data.load("imdb", data_dir=tmp_path)
    assert texts.texts == ("n1", "p1", "n2", "p2", "n3\nwith a line break")
    assert texts.labels == (0, 1, 0, 1, 0)
    assert (texts.paper, texts.chunk) == ("IMDB", 16)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Writes rows as a repository in the layout of the Hub, from where SST-2 is read then."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()

    def hub(rows, column="sentence"):
        repository = tmp_path / "repository"
        (repository / "data").mkdir(parents=True)
        (repository / "README.md").write_text("A data set of invented sentences.\n")
        texts, labels = map(list, zip(*rows, strict=True))
        table = pa.table({column: texts, "label": labels})
        pq.write_table(table, repository / "data" / "validation-00000-of-00001.parquet")
        source = replace(data.SOURCES["sst2"], hub=str(repository))
        monkeypatch.setitem(data.SOURCES, "sst2", source)
        return repository

    return hub


def test_the_hub_road_reads_a_repository_in_hub_layout(hub):
    repository = hub(ROWS)
    texts = data.load("sst2")  # a folder has no revisions: the source's is ignored
    assert list(zip(texts.texts, texts.labels, strict=True)) == ROWS
    assert texts.origin == f"hub:{repository}@{data.SOURCES['sst2'].revision}"


@pytest.mark.parametrize("name", data.SOURCES)
def test_a_data_set_of_the_hub_is_asked_for_at_its_pinned_revision(monkeypatch, name):
    asked = []

    def load_dataset(hub, **options):
        asked.append((hub, options))
        columns = {data.SOURCES[name].text: ["fine", "dull"], "label": [1, 0]}
        return datasets.Dataset.from_dict(columns).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    texts = data.load(name)
    source = data.SOURCES[name]
    options = {"revision": source.revision, "split": source.split, "streaming": True}
    assert asked == [(source.hub, options)]
    assert sorted(texts.texts) == ["dull", "fine"]
    assert texts.origin == f"hub:{source.hub}@{source.revision}"


@pytest.mark.parametrize(
    ("rows", "column", "says"),
    [([("fine", -1)], "sentence", "label -1"), ([("fine", 1)], "body", "sentence")],
)
def test_a_hub_repository_of_another_kind_is_refused(hub, rows, column, says):
    hub(rows, column)
    with pytest.raises(models.UnavailableError, match=says) as caught:
        data.load("sst2")
    assert "--data-dir" in str(caught.value)


@pytest.mark.parametrize("spoil", [lambda raw: raw[: len(raw) // 2], lambda raw: b""])
def test_a_spoilt_file_of_the_hub_is_refused(hub, spoil):
    (path,) = hub(ROWS).glob("data/*.parquet")
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(models.UnavailableError, match=r"could not be loaded(.|\n)*--data-dir"):
        data.load("sst2")


def test_digest_of_texts_sees_text_label_and_order(tmp_path):
    variants = [ROWS, ROWS[::-1], [(ROWS[0][0] + "!", 1), *ROWS[1:]], [(ROWS[0][0], 0), *ROWS[1:]]]
    digests = set()
    for variant in variants:
        sst2(tmp_path, tsv(variant))
        digests.add(data.load("sst2", data_dir=tmp_path).sha256)
    assert len(digests) == len(variants)


def test_first_takes_the_first_and_refuses_none_at_all():
    texts = data.load()
    assert texts.first(2).texts == texts.texts[:2]
    assert texts.first(2).labels == texts.labels[:2]
    assert texts.first(None) == texts
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"examples={count}: pass at least 1"):
            texts.first(count)


BROKEN = {
    "another text column": (tsv(header="text\tlabel"), "no column 'sentence', only text, label"),
    "no label column": (tsv(header="sentence\tclass"), "no column 'label', only sentence, class"),
    "two label columns": ("sentence\tlabel\tlabel\na\t1\t0\n", "has 2 columns 'label'"),
    "a label of three": (tsv([*ROWS, ("odd", 3)]), "label '3' in line 5"),
    "labels in words": (tsv([("odd", "yes"), *ROWS, ("odd", "yes")]), "label 'yes' in lines 2, 6"),
    "an empty text": (tsv([*ROWS, (" ", 1)]), "no text in line 5"),
    "all at once": (tsv([("", 1), ("a", 2)]), "no text in line 2; label '2' in line 3"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_sst2_is_refused_with_path_and_place(tmp_path, name):
    content, says = BROKEN[name]
    path = sst2(tmp_path, content)
    with pytest.raises(ValueError, match=says) as caught:
        data.load("sst2", data_dir=tmp_path)
    assert str(path) in str(caught.value)


def test_no_end_of_a_gzip_file_and_no_byte_in_it_gives_another_error(tmp_path):
    path = sst2(tmp_path, tsv([(f"{n} films", n % 2) for n in range(300)]))
    whole = path.read_bytes()
    spoilt = [whole[:n] + bytes([whole[n] ^ 0x5A]) + whole[n + 1 :] for n in range(10, 300, 7)]
    said = set()
    for content in (*(whole[:n] for n in range(1, len(whole), 50)), *spoilt, b"not gzip"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"is truncated or broken .*; get it again") as e:
            data.load("sst2", data_dir=tmp_path)
        assert str(path) in str(e.value)
        said.add(type(e.value.__cause__))
    assert said == {EOFError, gzip.BadGzipFile, zlib.error}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"text": "a", "label": 0.7}', "label 0.7 in line 2"),
        ('{"text": "a", "label": true}', "label True in line 2"),
        ('{"text": "a"}', "no column 'label', only text in line 2"),
    ],
)
def test_broken_imdb_is_refused(tmp_path, line, says):
    path = tmp_path / "imdb_test.jsonl.gz"
    path.write_bytes(gzip.compress((jsonl([("kind", 1)]) + line).encode()))
    with pytest.raises(ValueError, match=says):
        data.load("imdb", data_dir=tmp_path)
