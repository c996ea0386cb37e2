"""Runs functions in fresh processes, which have explained nothing before."""

from contextlib import contextmanager
from multiprocessing import get_context


@contextmanager
def processes():
    """Gives a function (task, *args) -> result, which forks a process that only imported."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.support.user_changes", "tests.support.uses"])
    with context.Pool(1, maxtasksperchild=1) as pool:
        yield lambda task, *args: pool.apply(task, args)
