"""Where Ray says that there is a GPU, a worker gets it; PyTorch must see it, too."""

import time

import pytest
import torch

from benchmarks.running import cluster
from tests.support import clusters


@pytest.fixture
def one_gpu():
    with clusters.started(gpus=1) as ray:
        yield ray


@pytest.mark.skipif(torch.cuda.is_available(), reason="here PyTorch sees a GPU")
def test_a_worker_gets_the_gpu_and_says_that_pytorch_sees_none(one_gpu):
    engine = cluster.engine("ray")
    assert engine.device == "cuda:0"
    says = r"a worker on .* got GPU 0 of the cluster, but PyTorch sees none .*--device cpu"
    with pytest.raises(ValueError, match=says):
        list(engine.each(abs, [("one", -1)]))
    end = time.monotonic() + 60
    while one_gpu.available_resources().get("GPU") != 1 and time.monotonic() < end:
        time.sleep(0.1)
    assert one_gpu.available_resources()["GPU"] == 1  # the worker is gone, and it had the GPU

    assert dict(cluster.engine("ray", device="cpu").each(abs, [("one", -1)])) == {"one": 1}
    assert cluster._Crew(one_gpu, "cuda:0", abs).room() == 1
