"""The workers of a Ray cluster: actors with one CPU thread or one GPU each, replaced if lost.

An actor writes the files of its blocks itself and returns their names; see ``runner``.
"""

import os
import platform
import socket
import time
from collections import Counter, deque
from functools import partial
from types import ModuleType

import torch

from lrp_axioms.axioms.extras import need
from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.benchmarks.names import ENGINES
from lrp_axioms.benchmarks.running.sending import packed, unpacked
from lrp_axioms.benchmarks.running.workers import AHEAD, IN_PROCESS, Engine
from lrp_axioms.numeric.spelling import did_you_mean

RETRIES = 3  # of an item whose worker was lost; an error of ours is not tried again
SECONDS = 5  # until a silent cluster counts as absent, and between looks for new machines


def engine(name: str, *, address: str | None = None, device: str | None = None) -> Engine:
    """Returns the engine "local" or "ray", the Ray cluster at ``address``.

    ``address``: None starts a cluster on this machine.
    ``device``: None takes the GPUs of the cluster if it has any, one per worker, else its CPUs,
    one thread per worker.  Sums on CPUs then agree bit for bit with one thread of this process on
    the same kind of processor.
    Raises MissingLibrary without Ray, and ValueError for another name, for a useless address, and
    if no cluster answers or it lacks the device.
    """
    if name not in ENGINES:
        meant = did_you_mean([name], ENGINES)
        raise ValueError(f"--engine {name!r}: the engines are {', '.join(ENGINES)}{meant}")
    if name == "local":
        if address is not None:
            raise ValueError(f"--address {address} would be ignored; pass --engine ray too")
        return IN_PROCESS
    ray = library()
    if not ray.is_initialized():
        _connect(ray, address)
    gpus = int(ray.cluster_resources().get("GPU", 0))
    try:
        wanted = torch.device(device or ("cuda" if gpus else "cpu")).type
    except RuntimeError:  # no device has that name
        wanted = None
    if wanted not in ("cpu", "cuda") or (wanted == "cuda" and not gpus):
        raise ValueError(
            f"device {device!r}: this cluster has {gpus} GPUs, and workers take 'cuda' or 'cpu'; "
            "leave --device out to take what there is"
        )
    # A worker sees no GPU but its own, which therefore has this name in all of them.
    place = "cuda:0" if wanted == "cuda" else "cpu"
    return Engine(partial(_each, ray, place), place)


def library() -> ModuleType:
    """Imports Ray, which then neither reports to its makers, nor warns, nor keeps notices back."""
    need("--engine ray", "ray", extra="cluster")
    for name in ("USAGE_STATS_ENABLED", "ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "DEDUP_LOGS"):
        os.environ.setdefault(f"RAY_{name}", "0")
    import ray

    return ray


def _connect(ray, address):
    """Joins a cluster, or starts one; a head that does not answer is named within seconds."""
    try:
        if address not in (None, "auto"):
            host, _, port = address.removeprefix("ray://").rpartition(":")
            socket.create_connection((host, int(port)), timeout=SECONDS).close()
        # "local": without an address, a cluster that happens to run here is not joined.
        alone = {} if address else {"include_dashboard": False}
        ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **alone)
    except Exception as error:  # Ray raises a bare Exception when it does not start in time
        place = f"--address {address}: no Ray cluster answers there"
        raise ValueError(
            f"{place if address else 'Ray did not start on this machine'} ({error}); pass the "
            "HOST:PORT that `ray start --head` printed as --address, or leave --engine out"
        ) from error


class _Worker:
    """One process with one CPU thread or one GPU; the model is unpacked once."""

    def ready(self, sent):
        import ray

        torch.set_num_threads(1)  # as Ray counts CPUs, and so that sums have one order
        gpus = ray.get_gpu_ids()
        if gpus and not torch.cuda.is_available():
            raise ValueError(
                f"a worker on {platform.node()} got GPU {gpus[0]} of the cluster, but PyTorch sees "
                "none there; install a PyTorch for it on that machine, or pass --device cpu"
            )
        self.function = unpacked(ray.get(sent[0]))

    def call(self, item):
        return self.function(item)


def _each(ray, place, function, items):
    """Calls ``function`` on every item, as an ``Each``; lost workers are replaced."""
    crew = _Crew(ray, place, function)
    items, waiting = iter(items), deque()  # items of lost workers come first
    more = True
    try:
        while True:
            room = crew.room()
            while more and len(waiting) + crew.has() < room * AHEAD:
                more = (item := next(items, None)) is not None
                waiting += [item] if more else []
            crew.hand_out(waiting, room)
            if not (more or waiting or crew.has()):
                return
            yield from crew.done(waiting)
    finally:
        for worker in crew.workers:
            ray.kill(worker)


class _Crew:
    """Actors, each with its items in order of arrival.

    The function is sent to each machine once, so all have the weights whose digest is on record.
    No item waits for a worker that the cluster has no room for.  A killed worker can lose the
    answer of its previous item, too, so each item of a lost worker is tried alone.
    """

    def __init__(self, ray, place, function):
        self.ray = ray
        self.kind, gpus = ("CPU", 0) if place == "cpu" else ("GPU", 1)
        # Ray's own restarts would hand an item to a worker that has no place any more.
        options = {"num_cpus": 1, "num_gpus": gpus, "max_restarts": 0}
        self.actor = ray.remote(_Worker).options(**options)
        # In a list, because Ray would hand over the content of a bare reference with every call.
        self.sent = [ray.put(packed(function, ray.cloudpickle.Pickler))]
        self.workers = {}  # actor -> {task: item}; the item of the actor's start is None
        self.losses = Counter()

    def room(self):
        """Returns how many workers the cluster can have."""
        return int(self.ray.cluster_resources().get(self.kind, 0))

    def has(self):
        """Returns how many items are with workers."""
        return sum(item is not None for tasks in self.workers.values() for item in tasks.values())

    def hand_out(self, waiting, room):
        """Gives ``waiting`` items to the workers with the fewest; hires workers for the rest."""
        idle = sum(not any(tasks.values()) for tasks in self.workers.values())  # or beginning
        for _ in range(min(room - len(self.workers), len(waiting) - idle)):
            worker = self.actor.remote()
            self.workers[worker] = {worker.ready.remote(self.sent): None}
        for ahead in range(AHEAD):
            for worker, tasks in self.workers.items():
                if not waiting or len(tasks) != ahead or None in tasks.values():
                    continue
                if not ahead or not any(self.losses[x[0]] for x in [waiting[0], *tasks.values()]):
                    item = waiting.popleft()
                    tasks[worker.call.remote(item[1])] = item

    def done(self, waiting):
        """Yields results as they come; moves the items of a lost worker to ``waiting``."""
        tasks = {task: worker for worker, tasks in self.workers.items() for task in tasks}
        if not tasks:
            time.sleep(SECONDS)  # until a machine has room
        for task in self.ray.wait(list(tasks), timeout=SECONDS)[0] if tasks else ():
            worker = tasks[task]
            task = next(iter(self.workers[worker]))  # its first, which ended before this one did
            try:
                result = _result(self.ray, task)
            except self.ray.exceptions.RayError as error:
                self._lost(worker, waiting, error)
                continue
            item = self.workers[worker].pop(task)
            self.losses.pop(item and item[0], None)  # None: a start
            if item is not None:
                yield item[0], result

    def _lost(self, worker, waiting, error):
        items = list(self.workers.pop(worker).values())
        self.ray.kill(worker)
        # Starts may fail for as long as others work, because the run then ends.
        works = any(None not in tasks.values() for tasks in self.workers.values())
        for item in items:
            name = item and item[0]
            self.losses[name] += 1
            if self.losses[name] > RETRIES and not (item is None and works):
                raise _given_up(item, error) from error
        waiting.extendleft(item for item in reversed(items) if item is not None)


def _result(ray, task):
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:  # ours: it would be raised again
        raise error.cause from error


def _given_up(item, error):
    place = "before they could start" if item is None else f"over {item[1]}"
    return RunError(
        f"{RETRIES + 1} workers were lost {place}; of the last one, Ray says "
        f"({type(error).__name__}): {' '.join(str(error).split())}\nLook at the memory of the "
        "machines, and that lrp-axioms is installed on each; then run again: what is complete is "
        "kept"
    )
