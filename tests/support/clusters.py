"""Ray clusters of this machine."""

from contextlib import contextmanager

import pytest


def installed():
    return pytest.importorskip("ray", reason="pip install 'lrp-axioms[cluster]' brings Ray")


@contextmanager
def started(*, gpus):
    """Two processors, and as many GPUs as Ray is told, whether there are any or not."""
    ray = installed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("RAY_raylet_start_wait_time_s", "120")  # on a busy machine
        patch.setenv("RAY_worker_niceness", "0")
        sizes = {"num_cpus": 2, "num_gpus": gpus}
        ray.init("local", **sizes, include_dashboard=False, log_to_driver=False)
        yield ray
        ray.shutdown()
