"""PyTorch's number of threads."""

from contextlib import contextmanager

import torch


@contextmanager
def one_thread():
    """Limits PyTorch to one thread: more slow down small products, above all on busy processors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
