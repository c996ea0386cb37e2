"""Where the blocks of a run are measured: in processes of this machine, or of a Ray cluster."""

from dataclasses import dataclass

from benchmarks.running.workers import Each, in_turn
from numeric.spelling import did_you_mean


@dataclass(frozen=True)
class Engine:
    """``each`` shares out the work; ``device`` is that of its workers.

    A ``device`` of None leaves a model where it is.
    """

    each: Each
    device: str | None = None


IN_PROCESS = Engine(in_turn)


def named(name: str, *, address: str | None = None, device: str | None = None) -> Engine:
    """The engine that a user names, "local" or "ray"; ValueError says what is wrong with it."""
    if name not in ("local", "ray"):
        meant = did_you_mean([name], ("local", "ray"))
        raise ValueError(f"--engine {name!r}: the engines are local, ray{meant}")
    if name == "local":
        if address is not None:
            raise ValueError(f"--address {address} would be ignored; pass --engine ray too")
        return IN_PROCESS
    from benchmarks.running.cluster import on_ray

    return on_ray(address=address, device=device)
