"""Texts in files: all are read as they were written, or the error says where one is not."""

import csv
import gzip
import io
import json
import os
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.sources import faults, files, parquet
from numeric import spelling

AWKWARD = [
    '" a fine film',
    '"a" fine film',
    'he said ""no"" to it"',
    "'",
    "a, fine; film | of\\n \\t \\",
    "# no comment",
    " blanks at both ends ",
    "\u2028a line\x0cbreak\x85of Unicode\x0b\u2029",
    "one\rcarriage return",
    "\ufeffmark",
    "naïve 映画 🎬 e\u0301",
    "2020-01-01",
    "1e5",
    "NA",
    "null",
    "true",
    "=1+1",
    "a" * 300_000,
]
MANY_LINES = ["a\nb\n", "\n\n.\n", "tab\tand\r\nline\r\n", '"\n",', "\r"]


def as_csv(texts):
    out = io.StringIO(newline="")
    csv.writer(out).writerows([["n", "text"], *enumerate(texts)])
    return out.getvalue()


def as_tsv(texts, end="\n"):
    return "".join(f"{line}{end}" for line in ["n\ttext", *(f"0\t{text}" for text in texts)])


def as_jsonl(texts, **options):
    return "".join(json.dumps({"n": n, "text": t}, **options) + "\n" for n, t in enumerate(texts))


def in_parquet(names, *columns, **options):
    out = io.BytesIO()
    pq.write_table(pa.table(list(map(pa.array, columns)), names=names), out, **options)
    return out.getvalue()


def as_parquet(texts, **options):
    return in_parquet(["n", "text"], range(len(texts)), texts, **options)


ALL = [*AWKWARD, "two\ttabs\t", *MANY_LINES[:-1], "a\r"]
ROUND = {
    "a.txt": ("".join(f"{text}\n" for text in AWKWARD), AWKWARD),
    "no newline at the end.txt": ("\n".join(AWKWARD), AWKWARD),
    "CRLF.txt": ("".join(f"{text}\r\n" for text in AWKWARD), AWKWARD),
    "a.tsv": (as_tsv(AWKWARD), AWKWARD),
    "CRLF.tsv": (as_tsv(AWKWARD, "\r\n"), AWKWARD),
    "a.csv": (as_csv(ALL), ALL),
    "a.jsonl": (as_jsonl(ALL), ALL),
    "in letters.jsonl": (as_jsonl(ALL, ensure_ascii=False), ALL),
    "a.parquet": (as_parquet(ALL), ALL),
    "categories.parquet": (as_parquet(pa.array(ALL * 2).dictionary_encode()), ALL * 2),
}  # fmt: skip
MARK = b"\xef\xbb\xbf"
VARIANTS = {
    "as it is": ("", lambda raw: raw),
    "packed": (".gz", gzip.compress),
    "marked": ("", lambda raw: MARK + raw),
    "marked and packed": (".GZ", lambda raw: gzip.compress(MARK + raw)),
}
ONCE = [(name, "as it is") for name in ROUND]
CHANGED = [(n, v) for n in ROUND for v in list(VARIANTS)[1:] if isinstance(ROUND[n][0], str)]


def texts(path, column="text"):
    return [t for (t,) in files.records(path, [column], faults.text_fault, advice="mend it")]


@pytest.mark.parametrize(("name", "variant"), [*ONCE, *CHANGED])
def test_awkward_texts_come_back_bit_by_bit(name, variant, tmp_path):
    content, want = ROUND[name]
    ending, change = VARIANTS[variant]
    path = tmp_path / f"{name}{ending}"
    path.write_bytes(change(content.encode() if isinstance(content, str) else content))
    assert texts(path) == want


def test_a_text_of_five_million_letters_is_read_from_each_format(tmp_path):
    text = "a fine film " * 420_000
    for name, content in {
        "a.txt": text, "a.csv": f'text,n\n"{text}",1\n', "a.tsv": f"text\n{text}\n",
        "a.jsonl": json.dumps({"text": text}),
    }.items():  # fmt: skip
        (tmp_path / name).write_text(content)
        assert texts(tmp_path / name) == [text]
    assert csv.field_size_limit() == 131072  # which other readers of this process count on


READ = {
    "blank lines between records.csv": ("text,n\n\na,1\n\r\nb,2\n\n", ["a", "b"]),
    "blank lines between records.tsv": ("text\tn\n\na\t1\n\nb\t2\n", ["a", "b"]),
    "blank lines between records.jsonl": ('\n{"text": "a"}\n \n{"text": "b"}\n', ["a", "b"]),
    "another column of mixed types.jsonl": (
        '{"n": 1, "text": "a"}\n{"n": "x", "text": "b"}\n{"n": [{}], "text": "c"}\n{"text": "d"}\n',
        ["a", "b", "c", "d"],
    ),
    "another column twice.csv": ("n,text,n\n1,a,2\n", ["a"]),
    "quotes in a field.csv": ('text,n\nhe said "no",1\n', ['he said "no"']),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_not_the_text_does_not_matter(name, tmp_path):
    content, want = READ[name]
    (tmp_path / name).write_bytes(content.encode())
    assert texts(tmp_path / name) == want


HALF = as_parquet(["a"] * 9)[:-20]
FLAT = {"compression": "none", "use_dictionary": False, "write_statistics": False}
FLIPPED = as_parquet(["a film"], write_page_checksum=True, **FLAT).replace(b"a film", b"a filn", 1)
REFUSED = {
    "notes.md": (b"a", "files '.md' are not read; pass one of .txt, .csv, .tsv, .jsonl, .parquet"),
    "notes": (b"a", "files 'without a suffix' are not read"),
    "a.txt.zst": (b"a", "files '.zst' are not read; pass ... may be packed by gzip (.gz)"),
    "gap.txt": (b"a\n\nb\n \n", "no text in lines 2, 4; mend it"),
    "empty.txt": (b"", "has no records; pass a file that has some"),
    "empty.csv": (b"", "has no column 'text', only none; mend it"),
    "empty.tsv": (b"", "has no column 'text', only none"),
    "empty.jsonl": (b"", "has no records"),
    "empty.parquet": (b"", "is truncated or broken"),
    "empty.txt.gz": (b"", "has no records"),
    "header.csv": (b"text\n", "has no records"),
    "latin.txt": (b"a\ncaf\xe9\n", "line 2 is not UTF-8 (byte 0xe9); save the file as UTF-8"),
    "latin.csv": (b"text\ncaf\xe9\n", "line 2 is not UTF-8"),
    "latin.jsonl": (b'{"text": "\xe9"}\n', "line 1 is not UTF-8"),
    "latin.txt.gz": (gzip.compress(b"a\ncaf\xe9\n"), "line 2 is not UTF-8"),
    "utf16.txt": ("a fine film".encode("utf-16"), "line 1 is not UTF-8 (byte 0xff)"),
    "utf16.tsv": ("text\na".encode("utf-16-le"), "has no column 'text'"),
    "wide.txt": ("a fine film".encode("utf-16-le"), "a NUL character in line 1"),
    "nul.csv": (b"text\na\0b\n", "a NUL character in line 2"),
    "nul.jsonl": (b'{"text": "a\\u0000"}\n', "a NUL character in line 1"),
    "half.jsonl": (b'{"text": "\\ud83c"}\n', "half a character (a lone surrogate) in line 1"),
    "numbers.jsonl": (b'{"text": 1}\n{"text": "a"}\n{"text": 2}', "int in place of text in lines"),
    "types.jsonl": (
        b'{"text": null}\n{"text": []}\n{"text": ""}\n{"text": {"a": 1}}\n',
        "no text in lines 1, 3; list in place of text in line 2; object in place of text in line 4",
    ),
    "twice.jsonl": (b'{"text": "a", "text": "b"}\n', "2 columns 'text' in line 1"),
    "missing.jsonl": (b'{"text": "a"}\n{"review": 1}', "no column 'text', only review in line 2"),
    "misspelt.jsonl": (b'{"review": "a"}\n' * 1500 + b'{"texts": 1}\n',
                       "has no column 'text', only review; mend it"),
    "list.jsonl": (b'["text", "a"]\n', "no object in line 1"),
    "broken.jsonl": (b'{"text": "a"}\n{"text":\n', "no JSON (Expecting value) in line 2"),
    "deep.jsonl": (b"[" * 200_000, "recursion"),
    "long number.jsonl": (b'{"text": ' + b"1" * 5000 + b"}", "in line 1"),
    "stars.csv": (b"stars,review\n3,fine\n", "has no column 'text', only stars, review; mend it"),
    "wide.csv": (",".join(f"c{n}" for n in range(14)).encode(), "c8, c9 and 4 more; mend it"),
    "blanks.csv": (b"n, text,\n1,a,\n", "no column 'text', only n, ' text', ''; mend it"),
    "twice.csv": (b"text,text\na,b\n", "has 2 columns 'text'; mend it"),
    "uneven.csv": (b"text,n\na,1\nb\nc,1,2\n", "not the 2 fields of the header in lines 3, 4"),
    "uneven.tsv": (b"text\ta\nb\tc\td\n", "not the 2 fields of the header in line 2"),
    "one column.csv": (b"text\na\n\nb\n", "no text in line 3"),
    "after lines.csv": (b'text,n\n"a\nb",1\n"c\nd"\n', "in line 4"),
    "open.csv": (b'text,n\na,1\n" a fine film,1\nb,2\n', "from line 3 on breaks the rules of CSV"),
    "closed.csv": (b'text,n\n"a" fine film,1\n', "from line 2 on breaks the rules of CSV (',' exp"),
    "Macintosh.csv": (b"text,n\ra,1\r", "from line 1 on breaks the rules of CSV (new-line"),
    "many.txt": (b"a\n" + b"\n" * 12, "lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more; mend"),
    "no gzip.txt.gz": (b"a fine film\n", "is truncated or broken"),
    "half.txt.gz": (gzip.compress(b"a fine film\n")[:-9], "is truncated or broken"),
    "half.parquet": (HALF, "is truncated or broken"),
    "no.parquet": (b"no", "is truncated or broken"),
    "flipped.parquet": (FLIPPED, "CRC checksum verification failed ... pass another file"),
    "packed.parquet.gz": (gzip.compress(as_parquet(["a"])), "files '.parquet.gz' are not read"),
    "numbers.parquet": (in_parquet(["text"], [1, 2]), "int in place of text in rows 1, 2"),
    "lists.parquet": (in_parquet(["text"], [["a"]]), "column 'text' is list<element: string>, whi"),
    "structures.parquet": (in_parquet(["text"], [{"a": "b"}]), "column 'text' is struct<a: string"),
    "null.parquet": (in_parquet(["text"], [None, None]), "no text in rows 1, 2"),
    "twice.parquet": (in_parquet(["text", "text"], ["a"], ["b"]), "has 2 columns 'text'"),
    "other.parquet": (in_parquet(["review"], ["a"]), "no column 'text', only review"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_refused_is_named_with_its_lines_and_the_next_step(name, tmp_path):
    content, says = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        texts(tmp_path / name)
    for part in says.split(" ... "):
        assert part in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))


LONG = b"a" * 2**22
ENDLESS = {
    "a line.txt": (LONG, "line 1 has more than 65536 bytes"),
    "a line.jsonl": (b'{"text": "' + LONG, "line 1 has more than"),
    "fields.tsv": (b"text\na\n" + LONG.replace(b"a", b"\t"), "line 3 has more than"),
    "fields.csv": (b"text\n" + b'"a\n",' * 2**22, "record from line 2 on has more than 65536 lett"),
    "lines.csv": (b'text\na\n"' + b"a\n" * 2**23, "the record from line 3 on has more than"),
    "a text.parquet": (as_parquet(["a", "a" * 2**17]), "more than 65536 letters in row 2; mend it"),
    "a page.parquet": (as_parquet(["a" * 2**23]), "column 'text' is packed from 8388"),
}


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("name", ENDLESS)
def test_what_has_no_end_is_refused_before_it_is_held(name, ending, tmp_path, monkeypatch):
    for module, constant, value in (
        (spelling, "LONGEST", 2**16), (files, "LONGEST", 2**16), (parquet, "LARGE", 2**20),
        (parquet, "PACKED", 10),
    ):  # fmt: skip
        monkeypatch.setattr(module, constant, value)
    content, says = ENDLESS[name]
    path = tmp_path / (name if name.endswith(".parquet") else f"{name}{ending}")
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    tracemalloc.start()
    with pytest.raises(ValueError, match=says):
        texts(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**23


def test_a_text_that_a_small_file_repeats_is_held_once(tmp_path):
    (tmp_path / "a.parquet").write_bytes(as_parquet(["a" * 2**20] * 64))
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    found = files.stream(tmp_path / "a.parquet", ["text"], faults.text_fault, advice="")
    assert next(found) == ("a" * 2**20,)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held + pa.total_allocated_bytes() - before < 2**23
    assert sum(1 for _ in found) == 63


def test_records_are_held_up_to_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST", 3)
    (tmp_path / "a.txt").write_text("a\n" * 3)
    assert texts(tmp_path / "a.txt") == ["a"] * 3
    (tmp_path / "a.txt").write_text("a\n" * 4)
    with pytest.raises(ValueError, match="has more than 3 records; divide the file"):
        texts(tmp_path / "a.txt")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl.gz", "a.parquet"])
def test_a_folder_in_place_of_a_file_and_a_missing_one_are_named(name, tmp_path):
    for says in ("No such file or directory", "Is a directory"):
        with pytest.raises(ValueError, match=rf"{name}: .*{says}.*; pass another file"):
            texts(tmp_path / name)
        (tmp_path / name).mkdir(exist_ok=True)


def test_a_folder_and_several_files_are_no_file(tmp_path):
    for name, says in (
        ("", r": a folder is not read; pass one of \.txt"),
        ("*.txt", r"\*\.txt stands for several files; join them into one, or pass one after"),
    ):
        with pytest.raises(ValueError, match=says):
            texts(tmp_path / name)
    (tmp_path / "*.txt").write_text("a\n")  # which is a name like any other
    assert texts(tmp_path / "*.txt") == ["a"]


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(ValueError, match=r"a\.txt is no regular file; write its lines to one"):
        texts(tmp_path / "a.txt")


def test_columns_come_in_the_order_asked_for_and_keep_the_types_they_have(tmp_path):
    for name, content, label in (
        ("a.csv", b"text,n,label\na,0,1\n", "1"),
        ("a.tsv", b"text\tn\tlabel\na\t0\t1\n", "1"),
        ("a.jsonl", b'{"text": "a", "n": 0, "label": 1}\n', 1),
        ("a.parquet", in_parquet(["text", "n", "label"], ["a"], [0], [1]), 1),
    ):
        (tmp_path / name).write_bytes(content)
        found = files.records(tmp_path / name, ["label", "text"], lambda *_: None, advice="")
        assert found == [(label, "a")]


def test_lines_have_no_column_but_text(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    with pytest.raises(ValueError, match=r"a\.txt has no column 'review', only text; mend it"):
        texts(tmp_path / "a.txt", "review")
