"""A file of a user's own rules, judged in a process that is ended if it takes too long."""

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic

from axioms.own_rules import report, verdicts
from axioms.own_rules.rules import RuleError, load
from axioms.own_rules.verdicts import Started


def judged(path: Path, limit: float, started: Started = lambda *_: None) -> Iterator[str]:
    """What is decided about each rule of a file, in order, as text.

    ``started`` is told of a rule how many verdicts there are, of how many, and what is next.

    Raises RuleError as ``load`` and ``judge`` do, and where a rule, or the file when it is run,
    takes more than ``limit`` seconds: a loop without end can only be ended from outside.
    """
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_judge, args=(path, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        place = ours.recv()  # once all is imported, before anything of the user's runs
        while place is not None:
            end = monotonic() + limit
            progress, found = True, ()
            while progress:
                if not ours.poll(max(0, end - monotonic())):
                    raise RuleError(
                        f"{place}: no verdict after {limit:g} seconds; look for a loop without "
                        "end, or give it more with --limit"
                    )
                progress, *found = ours.recv()
                if progress:
                    started(*found)
            text, error, place = found
            if error:
                raise RuleError(error)
            if text:
                yield text
    except EOFError:
        raise RuleError(f"{path}: ended the process that runs it; take out what exits") from None
    finally:
        process.kill()
        process.join()


def _judge(path: Path, parent: Connection):
    """Sends what comes first, and then what came of it, an error, what is next; and progress."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent says what there is to say
    threading.Thread(target=_end_with_parent, daemon=True).start()
    parent.send(path)
    text, place = "", path
    try:
        for rule in load(path):
            place = f"{rule.place}: {rule.name}"
            parent.send((False, text, "", place))
            text = report.text(rule, verdicts.judge(rule, partial(_tell, parent, rule.name)))
        parent.send((False, text, "", None))
    except (RuleError, OSError) as error:
        parent.send((False, "", str(error), None))
    except (ValueError, RecursionError, MemoryError) as error:
        said = f"{place}: {error or type(error).__name__}; it returns too much to judge, mend it"
        parent.send((False, "", said, None))


def _tell(parent: Connection, rule: str, done: int, total: int, name: str) -> None:
    parent.send((True, done, total, f"{rule}: {name}"))


def _end_with_parent():
    wait([parent_process().sentinel])
    os._exit(1)
