"""A row measured in a process of its own, to be killed; all of them start from one import."""

import io
import multiprocessing
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.experiments import rows, text
from benchmarks.running import folders
from benchmarks.sources import data, models

SENTENCES, SHARD = 40, (4, 4096, 4096)
PARTS = SENTENCES // SHARD[0]
ROW = "table2-sst2-attnlrp"
SECONDS = 120  # a process without progress fails then

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def measure(output: Path) -> text.Run:
    """The row on 40 embedded sentences, four to a part."""
    text.SHARD = SHARD
    return text.run(rows.load(ROW), models.load(), data.load().first(SENTENCES), output=output)


def measure_until_draft(output: Path, part: int) -> None:
    """Measures the row, but stops for ever when half of one block is written."""
    begins = f".{SHARD[0] * part:012d}"
    folders.pq.write_table = partial(_write_half, pq.write_table, begins)
    measure(output)


def _write_half(write, draft, table, file, **options):
    whole = io.BytesIO()
    write(table, whole, **options)
    if not Path(file.name).name.startswith(draft):
        file.write(whole.getvalue())
        return
    file.write(whole.getvalue()[: len(whole.getvalue()) // 2])
    file.flush()
    time.sleep(SECONDS)


@contextmanager
def process(target, *arguments):
    """Killed at the end, which no handler of the process can see."""
    started = PROCESSES.Process(target=target, args=arguments, daemon=True)
    started.start()
    try:
        yield started
    finally:
        started.kill()
        started.join()


def wait_for(condition, started) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert started.is_alive(), f"stopped by itself with {started.exitcode}"
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.002)
