"""How many threads PyTorch computes with."""

from contextlib import contextmanager

import torch


@contextmanager
def one_thread():
    """Small products run slower on several threads, and far slower on busy processors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
