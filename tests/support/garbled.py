"""Changes valid files but keeps their format, to test that readers take them or name them."""

import copy
import json
import re

from hypothesis import strategies as st

ODD = (
    None, True, 0, -1, 1, 10**30, -(10**400), 0.5, 1e308, float("nan"), float("-inf"), "", "x",
    "../../x", "\0", "é\n[b]", "1e999999999", "9" * 5000, [], [[]], [None], {}, {"x": 1}, [1, "1"],
)  # fmt: skip
KEY = re.compile(r'"(?:[^"\\]|\\.)*": ')


def places(content, at=()):
    """The path to every value in JSON, except the whole."""
    inner = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in inner:
        yield (*at, key)
        if isinstance(value, dict | list) and value:
            yield from places(value, (*at, key))


def _renamed(inner, key):
    if isinstance(inner, dict):
        inner[f"{key}_"] = inner.pop(key)
    else:
        inner.insert(0, inner.pop(key))


def _doubled(inner, key):
    if isinstance(inner, dict):
        inner[f"{key} again"] = inner[key]
    else:
        inner.insert(key, inner[key])


def _reordered(inner, key):
    if isinstance(inner[key], list):
        inner[key].reverse()
    elif isinstance(inner[key], dict):
        inner[key] = dict(reversed(inner[key].items()))


def _put(change):
    return lambda inner, key: inner.__setitem__(key, change(inner[key]))


CHANGES = {
    "drop": lambda inner, key: inner.pop(key),
    "rename": _renamed,
    "double": _doubled,
    "reorder": _reordered,
    "nest": _put(lambda x: [x]),
    "nest under a name": _put(lambda x: {"x": x}),
    "nest deeply": _put(lambda x: [[[[[[[[x]]]]]]]]),
    "as text": _put(str),
    "many": _put(lambda x: [x] * 1000),
    "empty": _put(lambda x: type(x)()),
}


@st.composite
def changed(draw, content):
    """The text of JSON ``content`` after one to three changes."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        if not (ways := list(places(content))):
            break
        *way, key = draw(st.sampled_from(ways))
        inner = content
        for step in way:
            inner = inner[step]
        if change := CHANGES.get(draw(st.sampled_from([*CHANGES, *["put"] * 8]))):
            change(inner, key)
        else:
            inner[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
    text = json.dumps(content)
    if draw(st.integers(0, 9)) == 0 and (found := list(KEY.finditer(text))):
        key = draw(st.sampled_from(found))
        text = f"{text[: key.start()]}{key[0]}0, {text[key.start() :]}"
    return text


@st.composite
def cut_or_flipped(draw, content):
    """Bytes without some at the end, or with a few replaced."""
    content = bytearray(content)
    if draw(st.booleans()):
        return bytes(content[: draw(st.integers(0, len(content) - 1))])
    for _ in range(draw(st.integers(1, 4))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content)


def files(content):
    """Bytes of a JSON file, changed as JSON or as bytes."""
    whole = json.dumps(content).encode()
    return st.one_of(changed(content).map(str.encode), cut_or_flipped(whole))
