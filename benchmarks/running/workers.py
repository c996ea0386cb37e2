"""Processes of this machine that share out work, each with one thread and a core; progress."""

import contextlib
import gc
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from lrp_axioms.benchmarks.errors import RunError

MOST = 4  # where nobody asks for more: each costs the memory and the start of one more program

AHEAD = 2  # items that a worker has at a time, so that it does not wait for the next one

Each = Callable[[Callable, Iterable[tuple]], Iterator[tuple]]
"""``each(function, items)`` yields (key, function(item)) of every (key, item), in any order.

Items are asked for when a worker is free, and no more are held than workers have.
"""


Track = Callable[[Iterable, str], Iterable]
"""Shows progress over the items of an iterable under a description."""


def untracked(items: Iterable, _description: str) -> Iterable:
    return items


@dataclass(frozen=True)
class Counted:
    """An iterator with the length of ``of``, if that is known."""

    items: Iterator
    of: Iterable

    def __iter__(self) -> Iterator:
        return self.items

    def __length_hint__(self) -> int:
        return len(self.of) if isinstance(self.of, Sized) else NotImplemented


@dataclass(frozen=True)
class Engine:
    """Processes that measure the blocks of a run; ``device`` None leaves a model where it is."""

    each: Each
    device: str | None = None


def in_turn(function: Callable, items: Iterable[tuple]) -> Iterator[tuple]:
    """Calls ``function`` on every item in this process, in order, as an ``Each``."""
    for key, item in items:
        yield key, function(item)


IN_PROCESS = Engine(in_turn)


def collected(
    function: Callable, items: Sequence, *, each: Each, track: Track, description: str
) -> dict:
    """Returns item -> ``function`` of it, in the items' order, whatever the order of ``each``."""
    results = each(function, ((item, item) for item in items))
    found = dict(result for _, result in zip(track(items, description), results, strict=False))
    return {item: found[item] for item in items}


def cores() -> int:
    """Returns the default number of processes."""
    return min(os.cpu_count() or 1, MOST)


@contextlib.contextmanager
def processes(count: int) -> Iterator[Each]:
    """Yields an ``Each`` of ``count`` processes, which end with the block; 1: this process.

    Functions, items and results must be picklable.  What runs has one thread, so that sums have
    one order whatever ``count`` is.  A worker that is lost raises RunError.
    """
    from lrp_axioms.benchmarks.running.timing import one_thread

    with one_thread():
        if count == 1:
            yield in_turn
            return
        spawn = get_context("spawn")  # a fork would share locks of threads that it has not
        ends, held = spawn.Pipe(duplex=False)
        pool = ProcessPoolExecutor(count, spawn, initializer=_begin, initargs=(ends,))
        try:
            yield partial(_shared_out, pool, count * AHEAD)
        finally:
            held.close()  # ends the workers; cancelling waiting items would make the pool complain
            pool.shutdown()
            ends.close()


def _shared_out(pool, most, function, items):
    items, futures = iter(items), {}
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "function"  # with a model in it, which a worker reads once
        packed.write_bytes(pickle.dumps(function))
        try:
            while True:
                for key, item in islice(items, most - len(futures)):
                    with _interrupts_held():  # by workers for good: it is here that they are seen
                        futures[pool.submit(_call, packed, item)] = key
                if not futures:
                    return
                for done in wait(futures, return_when=FIRST_COMPLETED).done:
                    yield futures.pop(done), done.result()
        except BrokenProcessPool as error:
            raise RunError(
                "a worker process was lost, maybe for want of memory; run again with fewer "
                "--workers: what is complete is kept"
            ) from error


@contextlib.contextmanager
def _interrupts_held():
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(ends):
    os.environ["OMP_NUM_THREADS"] = "1"  # PyTorch is not there yet
    threading.Thread(target=_end_with, args=(ends,), daemon=True).start()


def _end_with(ends):
    """Ends this process, whatever it does, once the other end of the pipe is closed or gone."""
    with contextlib.suppress(EOFError, OSError):
        ends.recv()
    os._exit(1)


def _call(packed, item):
    return _function(packed)(item)


@lru_cache(maxsize=1)
def _function(packed):
    gc.disable()  # imports leave no garbage
    try:
        return pickle.loads(packed.read_bytes())
    finally:
        gc.enable()
