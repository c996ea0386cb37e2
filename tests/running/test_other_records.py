"""The folder of another record is refused, key by key."""

import json
from contextlib import nullcontext

import pytest

from benchmarks.errors import RunError
from benchmarks.running import runner
from tests.support.squares import PART, RECORD, garbled, measure, never, squares
from tests.support.traces import every_file

OTHER = {
    "another value": ({**RECORD, "weights": "abd"}, ["weights: 'abc' there, 'abd' now"]),
    "another value inside": (
        {**RECORD, "row": {"method": "loo", "options": {"epsilon": 0.2}}},
        ["row.options.epsilon: 0.1 there, 0.2 now"],
    ),
    "two at once": (
        {"row": {"method": "cp-lrp", "options": {"epsilon": 0.1}}, "weights": "x"},
        ["row.method: 'loo' there, 'cp-lrp' now", "weights: 'abc' there, 'x' now"],
    ),
    "a new key": ({**RECORD, "dtype": "float64"}, ["dtype: nothing there, 'float64' now"]),
    "a key less": ({"row": RECORD["row"]}, ["weights: 'abc' there, nothing now"]),
    "null": ({**RECORD, "dtype": None}, ["dtype: nothing there, None now"]),
    "an empty object": ({**RECORD, "dtype": {}}, ["dtype: nothing there, {} now"]),
    "a dot in a name": (
        {"row": {"method": "loo"}, "row.options.epsilon": 0.1, "weights": "abc"},
        [
            "row.options.epsilon: 0.1 there, nothing now",
            "row.options.epsilon: nothing there, 0.1 now",
        ],
    ),
    "a long value": (
        {**RECORD, "weights": "x" * 10**6},
        ["weights: 'abc' there, '" + "x" * 99 + "..." + "x" * 99 + "' now"],
    ),
    "many at once": (
        {**RECORD, "more": list(range(30))},
        [*(f"more.{n}: nothing there, {n} now" for n in range(20)), "and 10 more"],
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_the_folder_of_another_record_is_refused_key_by_key(folder, name):
    record, says = OTHER[name]
    before = every_file(folder)
    with pytest.raises(RunError, match="another configuration") as caught:
        measure(folder, record, function=never)
    message = str(caught.value)
    assert [line.strip() for line in message.splitlines()[1:-1]] == says
    assert str(folder) in message
    assert "--output" in message
    assert every_file(folder) == before


def test_a_run_with_its_methods_in_another_order_is_refused(tmp_path):
    """The lines of a text are in the order of the methods."""
    one, two = {"a": {"method": "loo"}}, {"b": {"method": "cp-lrp", "options": {"epsilon": 1}}}
    measure(tmp_path, {"variants": one | two})
    with pytest.raises(RunError, match=r"order of variants: \['a', 'b'\] there, \['b', 'a'\] now"):
        measure(tmp_path, {"variants": two | one}, function=never)
    measure(tmp_path, {"variants": one | two}, function=never)


def test_the_record_is_compared_as_json_gives_it_back(folder):
    again = {"row": RECORD["row"], "weights": "abc"}
    measure(folder, again, function=never)
    measure(folder.with_name("tuples"), {"layers": (1, 2), "part": {3: 4}})
    measure(folder.with_name("tuples"), {"layers": [1, 2], "part": {"3": 4}}, function=never)


LIKE = {"flag": False, "limit": None, "n": [1, 2.0], "of": {"a": {"b": "c"}, "none": {}}}


def test_a_run_and_a_verification_accept_the_same_records(tmp_path):
    """Types are compared, too: a run with 0 for false would be one that nobody can verify."""
    measure(tmp_path, LIKE)
    path, refused = tmp_path / "record.json", 0
    written = json.loads(path.read_text())
    others = [{**LIKE, "flag": 0}, {**LIKE, "n": [True, 2]}, {**LIKE, "n": [1, 2]}]
    others += [each["record"] for each in garbled({"record": LIKE}) if "record" in each]
    for record in others:
        path.write_text(json.dumps(written | {"record": record}))
        for call in (
            lambda: measure(tmp_path, LIKE, function=never),
            lambda: runner.verify(tmp_path),
        ):
            with pytest.raises(RunError, match=r"edited|is no record"):
                call()
        refused += 1
    assert refused > 100
    path.write_text(json.dumps(written))
    assert runner.verify(tmp_path).texts == 5


BROKEN = {
    **{text: text for text in ("", "{", "[]", "{}", "\xff", '{"record": {}}')},
    **{
        f"a record {each}": f'{{"record": {each}, "provenance": {{}}}}'
        for each in ("3", "[]", "null")
    },
    "no record of a list": "[" * 10**5,
    "more": '{"record": {}, "provenance": {}, "more": 1}',
    "no provenance": '{"record": {}, "provenance": "x"}',
    "twice": '{"record": {}, "provenance": {}, "record": {}}',
    "large": json.dumps({"record": {"a": "x" * 2**24}, "provenance": {}}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_is_named(folder, name):
    (folder / "record.json").write_text(BROKEN[name], "latin-1")
    before = every_file(folder)
    for call in (lambda: measure(folder, function=never), lambda: runner.verify(folder)):
        with pytest.raises(RunError, match=r"record\.json is no record:\s") as caught:
            call()
        assert str(caught.value).endswith(f"or remove {folder}, and run again.")
        assert len(str(caught.value)) < 1000
    assert every_file(folder) == before


def test_a_record_that_is_nested_too_deeply_is_refused_at_any_depth(folder):
    for n in range(460, 1000, 3):
        deep = '{"a":' * n + "1" + "}" * n
        (folder / "record.json").write_text(f'{{"provenance": {{}}, "record": {deep}}}')
        for call in (lambda: measure(folder, function=never), lambda: runner.verify(folder)):
            with pytest.raises(RunError):
                call()


def replaced(path):
    """As an editor does it."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


MEANWHILE = {"removed": lambda path: path.unlink(), "replaced": replaced}


@pytest.mark.parametrize("name", MEANWHILE)
@pytest.mark.parametrize("fails", [True, False])
def test_a_record_that_is_gone_or_replaced_meanwhile_opens_the_folder_to_nobody(
    tmp_path, name, fails
):
    folder, begun = tmp_path / "run", []

    def change(of_block):
        if of_block.first == 2 and not begun:
            MEANWHILE[name](folder / "record.json")
            begun.append(of_block)
            with pytest.raises(RunError, match="another run is at work in"):
                measure(folder, function=never)
            if fails:
                raise KeyboardInterrupt
        return squares(of_block)

    with pytest.raises(KeyboardInterrupt) if fails else nullcontext():
        measure(folder, function=change)
    assert measure(folder, function=change).equals(measure(tmp_path / "other"))
    assert runner.verify(folder).texts == 5


def test_a_record_that_became_another_one_meanwhile_is_named(tmp_path):
    def change(of_block):
        path = tmp_path / "record.json"
        path.write_text(path.read_text().replace("loo", "cp-lrp"))
        return squares(of_block)

    with pytest.raises(RunError, match=r"row\.method: 'cp-lrp' there, 'loo' now"):
        measure(tmp_path, function=change)
    assert not list(tmp_path.glob(PART))
