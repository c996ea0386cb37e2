"""Small runs whose results are squares of numbers."""

import json
from functools import reduce
from operator import getitem

import pytest

from benchmarks.running import runner
from benchmarks.running.blocks import block
from tests.support.garbled import places

BLOCKS = [block(0, [2, 0]), block(2, [1, 3]), block(4, [4])]
RECORD = {"row": {"method": "loo", "options": {"epsilon": 0.1}}, "weights": "abc"}


def squares(of_block):
    """Two variants, with a column of lists."""
    shard = of_block.content
    return {
        "variant": ["one"] * len(shard) + ["two"] * len(shard),
        "example": list(shard) * 2,
        "square": [float(n * n) for n in shard] * 2,
        "relevance": [[0.1 * n] * (n + 1) for n in shard] * 2,
    }


def never(of_block):
    raise AssertionError(f"measured {of_block}")


def measure(folder, record=RECORD, blocks=BLOCKS, function=squares, **options):
    """The table of a run."""
    return runner.read(runner.run(folder, record, blocks, function, **options))


def stopped(folder):
    """Makes a run that stops after two blocks."""

    def fail(of_block):
        if 4 in of_block.content:
            raise RuntimeError("out of memory")
        return squares(of_block)

    with pytest.raises(RuntimeError):
        measure(folder, function=fail)


def files(folder):
    return json.loads((folder / "manifest.json").read_text())["files"]


PARTS = [f"part-{first:012d}.parquet" for first in (0, 2, 4)]
PART = PARTS[1]


ODD = (None, -1, 1.5, True, 2**70, "", "../../precious.txt", [], {}, [[]], "\0")
GONE = object()


def garbled(content):
    """JSON with one value replaced, removed or doubled."""
    for *place, key in places(content):
        for value in (*ODD, GONE):
            spoilt = json.loads(json.dumps(content))
            inside = reduce(getitem, place, spoilt)
            if value is GONE:
                del inside[key]
            else:
                inside[key] = value
            if spoilt != content:
                yield spoilt
