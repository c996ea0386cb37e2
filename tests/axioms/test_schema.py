"""A file of this program is read strictly, and an error names the place of every problem."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from axioms import schema


@dataclass(frozen=True)
class Inner:
    first: int
    end: int

    def __post_init__(self):
        if self.end < self.first:
            raise ValueError(f"end {self.end} is before first {self.first}")


@dataclass(frozen=True, kw_only=True)
class Outer:
    files: tuple[Inner, ...]
    share: float = 1.0
    more: dict[str, object] = field(default_factory=dict)


RIGHT = {"files": [{"first": 0, "end": 2}], "share": 2, "more": {"a": [None, True, "x"]}}


def put(**changed):
    return json.dumps(RIGHT | changed)


WRONG = {
    "no JSON": ("{", "Expecting property name"),
    "two values": ("1, 2", "Extra data: line 1 column 2"),
    "a list": ("[]", "must be an object, not []"),
    "no field": ("{}", "files is missing"),
    "text for a number": (put(share="1"), "share: must be a valid number, not '1'"),
    "a truth value for a number": (put(files=[{"first": False, "end": 1}]),
        "files[0].first: must be a valid integer, not False"),
    "a float for an integer": (put(files=[{"first": 0.0, "end": 1}]),
        "files[0].first: must be a valid integer, not 0.0"),
    "an unknown field": (put(share_=1), "share_ is unknown"),
    "an unknown field in a part": (put(files=[{"first": 0, "end": 1, "a\n": 1}]),
        r"files[0].'a\n' is unknown"),
    "an end before its start": (put(files=[{"first": 3, "end": 1}]),
        "files[0]: end 1 is before first 3"),
    "infinite": (put(share=float("inf")), "share: must be a finite number, not inf"),
    "infinite by a large exponent": (put(share=9).replace("9", "1e999"),
        "share: must be a finite number, not inf"),
    "NaN in a nested value": (put(more={"a b": [float("nan")]}),
        "more.'a b'[0]: must be a finite number, not nan"),
    "a field twice": (put()[:-1] + ', "share": 3}', "'share' is there 2 times"),
    "nested 10,000 deep": ("[" * 10_000 + "]" * 10_000, "it is nested too deeply"),
    "nested 300 deep": (put(more={"a": 1}).replace("1", "[" * 300 + "]" * 300), "recursion limit"),
    "a long number": (put(share=9).replace("9", "9" * 5000), "5000 digits"),
    "half a letter": (put(more={"a": "\ud800"}), "Invalid JSON"),
    "too large": (" " * 20_001, "it has more than 20000 bytes"),
    "not UTF-8": (b"\xff\xfe", "byte 0 is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_by_its_place(name, tmp_path):
    text, said = WRONG[name]
    (tmp_path / "a.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=r"a\.json is no thing:") as error:
        schema.read(tmp_path / "a.json", Outer, "thing", size=20_000)
    assert said in str(error.value)
    assert "pydantic" not in str(error.value)


def test_all_problems_are_listed_up_to_20(tmp_path):
    (tmp_path / "a.json").write_text('{"files": [{"first": "0"}], "more": {}, "more": {}}')
    with pytest.raises(ValueError, match="no thing") as error:
        schema.read(tmp_path / "a.json", Outer, "thing")
    assert str(error.value).splitlines()[1:] == [
        "  'more' is there 2 times",
        "  files[0].first: must be a valid integer, not '0'",
        "  files[0].end is missing",
    ]
    (tmp_path / "a.json").write_text(json.dumps([None] * 1000))
    with pytest.raises(ValueError, match=r"\n  \[19\]: .*\n  and 980 more$"):
        schema.read(tmp_path / "a.json", list[int], "thing")


def test_many_values_are_refused_before_they_are_read():
    with pytest.raises(ValueError, match="no thing: it has more than 10 values"):
        schema.parse("," * 11, Outer, "no thing", values=10)


def test_a_file_is_read_as_its_schema_declares(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(RIGHT))
    found = schema.read(tmp_path / "a.json", Outer, "thing")
    assert found == Outer(files=(Inner(0, 2),), share=2.0, more={"a": [None, True, "x"]})
    (tmp_path / "a.toml").write_text("share = 0.5\n[[files]]\nfirst = 1\nend = 1\n")
    assert schema.read(tmp_path / "a.toml", Outer, "thing").files == (Inner(1, 1),)
    for text, said in (
        ("share = 1\nshare = 1", "Cannot overwrite a value"),
        ("share = nan\nfiles = []", "share: must be a finite number, not nan"),
        ("more = 2020-01-01", "2020-01-01 is a date"),
        ("more = " + "[" * 5000, "nested too deeply"),
    ):
        (tmp_path / "a.toml").write_text(text)
        with pytest.raises(ValueError, match=rf"a\.toml is no thing: .*{said}"):
            schema.read(tmp_path / "a.toml", Outer, "thing")


def test_whatever_is_no_file_is_refused_at_once(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    for name, said in (
        ("none", "there is no such file"),
        ("link", "the link leads nowhere"),
        ("pipe", "it is no regular file"),
        (".", "it is no regular file"),
        ("\0", "there is no such file"),
    ):
        with pytest.raises(ValueError, match=f"is no thing: {said}"):
            schema.read(tmp_path / name, Outer, "thing")


def test_pydantic_is_loaded_where_a_file_is_read():
    code = "import sys, axioms.schema, numeric.results.result; assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
