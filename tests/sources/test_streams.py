"""Texts that are read one after the other: from files, URLs and Hugging Face data sets."""

import gzip
import io
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import datasets
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.errors import UnavailableError
from benchmarks.running import blocks
from benchmarks.sources import faults, files, parquet, streams

TEXTS = [f"{n} films" for n in range(30)]


@pytest.fixture(autouse=True)
def silent(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def test_a_packed_column_that_is_not_read_is_no_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "LARGE", 2**20)
    monkeypatch.setattr(parquet, "PACKED", 10)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"mask": ["a" * 2**23], "text": ["a fine film"]}), path)
    assert [*streams.texts(str(path))] == ["a fine film"]


def test_a_url_is_read_as_a_file_is():
    memory = fsspec.filesystem("memory")
    memory.pipe("/a/texts.txt", "\n".join(TEXTS).encode())
    table = io.BytesIO()
    pq.write_table(pa.table({"review": TEXTS}), table)
    memory.pipe("/a/texts.parquet", table.getvalue())
    assert list(streams.texts("memory://a/texts.txt")) == TEXTS
    assert list(streams.texts("memory://a/texts.parquet", column="review")) == TEXTS
    with pytest.raises(ValueError, match=r"^memory://a/none\.txt: No such file .*; pass another"):
        next(streams.texts("memory://a/none.txt"))
    with pytest.raises(ValueError, match=r"^nosuch://a/b\.csv: .*; install or set up"):
        next(streams.texts("nosuch://a/b.csv"))


def test_a_saved_data_set_and_one_in_the_layout_of_the_hub_are_streamed(tmp_path):
    one = datasets.Dataset.from_dict({"n": range(30), "text": TEXTS})
    one.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"test": one}).save_to_disk(tmp_path / "two")
    (tmp_path / "hub" / "data").mkdir(parents=True)
    one.to_parquet(tmp_path / "hub" / "data" / "train-00000-of-00001.parquet")
    assert list(streams.texts(str(tmp_path / "one"))) == TEXTS
    assert list(streams.texts(str(tmp_path / "two"), split="test")) == TEXTS
    assert list(streams.texts(f"hub:{tmp_path / 'hub'}")) == TEXTS
    with pytest.raises(ValueError, match=r"has no column 'review', only n, text; .* --text-column"):
        next(streams.texts(str(tmp_path / "one"), column="review"))
    with pytest.raises(FileNotFoundError, match="could not be loaded from its folder"):
        next(streams.texts(str(tmp_path / "two"), split="validation"))
    with pytest.raises(ValueError, match=r"int in place of text in rows 1, 2, .* and 20 more"):
        next(streams.texts(str(tmp_path / "one"), column="n"))


def test_a_split_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    with pytest.raises(ValueError, match=r"--split test would be ignored: .*a\.txt"):
        next(streams.texts(str(tmp_path / "a.txt"), split="test"))
    place = str(tmp_path / "one")
    datasets.Dataset.from_dict({"text": ["a"]}, split="train").save_to_disk(place)
    assert list(streams.texts(place, split="train")) == ["a"]
    with pytest.raises(UnavailableError, match="it has the split train alone, and no test"):
        next(streams.texts(place, split="test"))


def test_a_query_hides_no_suffix(monkeypatch):
    content = gzip.compress("\n".join(TEXTS).encode())
    served = ["a.txt.gz?download=true&signature=a.b", "download?file=a.txt.gz"]
    opened = lambda url: SimpleNamespace(open=lambda: io.BytesIO(content))
    monkeypatch.setattr(fsspec, "open", opened)
    for name in served:
        assert list(streams.texts(f"https://host/{name}")) == TEXTS


def test_an_address_that_breaks_off_says_so(monkeypatch):
    class Broken(io.BytesIO):
        def readable(self):
            raise LookupError("403 Forbidden")

        read = readline = read1 = readinto = lambda self, *_: self.readable()

    monkeypatch.setattr(fsspec, "open", lambda _url: SimpleNamespace(open=Broken))
    for name in ("a.txt", "a.csv", "a.jsonl.gz", "a.parquet"):
        said = rf"^https://host/{name} cannot be read to its end \(403 Forbidden\); try again"
        with pytest.raises(ValueError, match=said):
            next(streams.texts(f"https://host/{name}"))


def test_the_name_of_a_web_address_has_no_query():
    for place, name in {
        "https://host/a/b.csv?signature=secret": "b.csv",
        "HTTP://host/b.csv?x=/y": "b.csv",
        "folder/b?.csv": "b?.csv",
        "hub:user/name": "name",
    }.items():
        assert Path(files.path_of(place)).name == name


def test_columns_beside_the_texts_are_not_decoded(tmp_path):
    """Sound needs a library of its own to be decoded, which is not here, or a file that is."""
    sounds = [{"path": f"{n}.wav", "bytes": b"no sound"} for n in range(30)]
    one = datasets.Dataset.from_dict({"text": TEXTS, "sound": sounds})
    one = one.cast_column("sound", datasets.Audio())
    one.save_to_disk(tmp_path / "one")
    assert list(streams.texts(str(tmp_path / "one"))) == TEXTS


def test_a_file_is_read_as_far_as_its_texts_are_asked_for(tmp_path):
    """Bytes that are no text would be an error where they are read."""
    (tmp_path / "a.txt").write_bytes(b"a fine film\n" * 100_000 + b"\xff\n")
    texts = streams.texts(str(tmp_path / "a.txt"))
    assert len(list(islice(texts, 50_000))) == 50_000
    with pytest.raises(ValueError, match="line 100001 is not UTF-8"):
        list(texts)


def test_all_lines_without_a_text_are_listed_behind_those_before_them(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n\nfour\n\n")
    texts = streams.texts(str(tmp_path / "a.txt"))
    assert [next(texts), next(texts)] == ["one", "two"]
    with pytest.raises(ValueError, match="no text in lines 3, 5; mend the file"):
        next(texts)


def test_of_endless_faults_the_first_are_kept_and_all_are_counted():
    found = faults.Faults("line")
    for n in range(1000):
        found.add("no text", n)
        found.add(f"fault {n}", n)
    assert sum(len(first) for first, _ in found.found.values()) < 100
    with pytest.raises(
        ValueError, match=r"no text in lines 0, 1, .* and 990 more; .* else in 991 lines; mend"
    ):
        found.check("here", "mend it")


def test_blocks_depend_on_the_texts_before_them_alone():
    texts = ["a" * (n % 7 + 1) for n in range(12000)]
    found = list(blocks.blocks(texts, 512, 2048))
    ends = [512, 1024, 1536, 2048, 2560, 3200, 4000, 5000, 6250, 7812, 9765, 11813, 12000]
    assert [each.end for each in found] == ends
    assert [each.first for each in found] == [0, *ends[:-1]]
    assert [text for each in found for text in each.content] == texts
    assert list(blocks.blocks(iter(texts[:1030]), 512, 2048))[:2] == found[:2]
    assert found[0].sha256 != blocks.block(0, [*texts[:511], "b"]).sha256


@pytest.mark.parametrize(("size", "count"), [(1, blocks.ROWS[0]), (2**18, 5), (2**25, 1)])
def test_few_letters_are_read_ahead(size, count):
    read = []
    texts = blocks.read_ahead(read.append(n) or "a" * size for n in range(600))
    assert len(read) == count
    assert next(texts) == "a" * size
    assert len(read) == count
    if size == 1:
        assert list(texts) == ["a"] * 599


def test_long_texts_make_small_blocks_of_at_least_one():
    huge = "a" * (blocks.LETTERS + 1)
    found = blocks.blocks(["a", huge, huge, "b", "c" * 9, "d"], 512, 2048)
    assert [each.end - each.first for each in found] == [1, 1, 1, 3]


def test_a_small_model_gets_large_blocks_at_once():
    millions = {0.01: (4096, 4096), 8: (2147, 2147), 22: (780, 2048), 110: (512, 2048)}
    assert {n: blocks.rows(int(n * 1e6)) for n in millions} == millions
