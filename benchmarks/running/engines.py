"""Where the shards of a run are measured: in processes of this machine, or of a Ray cluster.

An engine hands tables to the runner, which alone writes them: no shared folder is needed, and a
shard that is measured twice, because a worker was lost, is still one part.  Nothing here imports
Ray until a cluster is asked for.
"""

import json
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import torch

from axioms.extras import need
from benchmarks.errors import RunError
from benchmarks.running.provenance import provenance
from benchmarks.running.workers import Each, in_turn
from numeric.spelling import did_you_mean

Measure = Callable[[Sequence[int]], dict[str, list]]
Shards = Mapping[int, Sequence[int]]

RETRIES = 3  # of a shard whose worker was lost; an error of ours is not tried again
SECONDS = 5  # in which the head of a cluster answers, and after which new machines are seen


@dataclass(frozen=True)
class Engine:
    """``measure`` yields (number, table) of every shard, in any order, each once.

    ``device`` is that of the workers; None leaves a model where it is.
    """

    measure: Callable[[Measure, Shards], Iterator[tuple[int, pa.Table]]]
    device: str | None = None


def table(measure: Measure, shard: Sequence[int]) -> pa.Table:
    """What ``measure`` returns of one shard, with the provenance of the process that ran it."""
    made = {b"provenance": json.dumps(provenance()).encode()}
    return pa.table(measure(shard)).replace_schema_metadata(made)


def of(each: Each) -> Engine:
    """This process, or the processes of this machine that ``each`` shares out work to."""
    return Engine(lambda measure, shards: each(partial(table, measure), shards))


IN_PROCESS = of(in_turn)


def on_ray(*, address: str | None = None, device: str | None = None) -> Engine:
    """The workers of the Ray cluster at ``address``; None starts one on this machine.

    ``device``: None takes the GPUs of the cluster if it has any, one per worker, else its CPUs,
    one thread per worker.  Sums then agree bit for bit with those of one thread in this process
    on the same kind of processor.
    Raises MissingLibrary without Ray, and ValueError if no cluster answers or it lacks the device.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it reports to its makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns
    need("--engine ray", "ray", extra="cluster")
    import ray

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
    return Engine(partial(_on_workers, ray, place=place), place)


def named(name: str, *, address: str | None = None, device: str | None = None) -> Engine:
    """The engine that a user names, "local" or "ray"; ValueError says what is wrong with it."""
    if name not in ("local", "ray"):
        meant = did_you_mean([name], ("local", "ray"))
        raise ValueError(f"--engine {name!r}: the engines are local, ray{meant}")
    if name == "local":
        if address is not None:
            raise ValueError(f"--address {address} would be ignored; pass --engine ray too")
        return IN_PROCESS
    return on_ray(address=address, device=device)


def _connect(ray, address):
    """Joins a cluster, or starts one; a head that does not answer is named within seconds."""
    try:
        if address not in (None, "auto"):
            host, _, port = address.removeprefix("ray://").rpartition(":")
            socket.create_connection((host, int(port)), timeout=SECONDS).close()
        # "local": without an address, a cluster that happens to run here is not joined.
        alone = {} if address else {"include_dashboard": False}
        ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **alone)
    except Exception as error:  # which is what Ray raises when it does not start in time
        place = f"--address {address}: no Ray cluster answers there"
        raise ValueError(
            f"{place if address else 'Ray did not start on this machine'} ({error}); pass the "
            "HOST:PORT that `ray start --head` printed as --address, or leave --engine out"
        ) from error


class _Worker:
    """One process with one CPU thread or one GPU; what to measure is unpacked once."""

    def ready(self, sent):
        import ray

        torch.set_num_threads(1)  # as Ray counts CPUs, and so that sums have one order
        self.measure = ray.cloudpickle.loads(ray.get(sent[0]))

    def table(self, shard):
        return table(self.measure, shard)


def _on_workers(ray, measure, shards, *, place):
    """Actors that get a shard when they are ready for it, and are replaced when they are lost.

    What to measure is sent to each machine once, so that all have the very weights whose digest is
    on record.  Nothing waits for a worker that the cluster has no room for, and no more tables
    than there are workers wait to be written.
    """
    kind, gpus = ("CPU", 0) if place == "cpu" else ("GPU", 1)
    # Ray's own restarts would hand a shard to a worker that has no place any more.
    hire = ray.remote(_Worker).options(num_cpus=1, num_gpus=gpus, max_restarts=0).remote
    # Packed by us, so that what cannot be unpacked is an error of ours, not a lost worker; in a
    # list, because Ray would hand over the content of a bare reference with every call.
    sent = [ray.put(ray.cloudpickle.dumps(measure))]
    waiting, busy, idle, losses = list(reversed(shards)), {}, [], Counter()
    left = len(shards)
    try:
        while left:
            room = int(ray.cluster_resources().get(kind, 0))
            for _ in range(min(room, left) - len(busy) - len(idle)):
                worker = hire()
                busy[worker.ready.remote(sent)] = worker, None
            while waiting and idle:
                worker, n = idle.pop(), waiting.pop()
                busy[worker.table.remote(shards[n])] = worker, n
            for task in ray.wait(list(busy), timeout=SECONDS)[0] if busy else ():
                worker, n = busy.pop(task)
                try:
                    found = _result(ray, task)
                except ray.exceptions.RayError as error:
                    ray.kill(worker)
                    losses[n] += 1
                    if losses[n] > RETRIES:
                        raise _given_up(n, shards, error) from error
                    waiting += [] if n is None else [n]
                    continue
                losses.pop(n, None)
                idle.append(worker)
                if n is not None:
                    left -= 1
                    yield n, found
    finally:
        for worker in (*idle, *(worker for worker, _ in busy.values())):
            ray.kill(worker)


def _result(ray, task):
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:  # ours: it would be raised again
        raise error.cause from error


def _given_up(n, shards, error):
    place = "before they could start" if n is None else f"over part {n}, examples {shards[n]}"
    return RunError(
        f"{RETRIES + 1} workers were lost {place}; of the last one, Ray says "
        f"({type(error).__name__}): {' '.join(str(error).split())}\nLook at the memory of the "
        "machines, and that lrp-axioms is installed on each; then run again: what is complete is "
        "kept"
    )
