"""Weights that are sent once to each machine, where all workers read the same memory."""

import io
import pickle
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch


def packed(function: Callable, pickler: type) -> list[np.ndarray]:
    """Returns a function as bytes, followed by the parameters of its models, each by itself.

    ``pickler``: a class like ``cloudpickle.Pickler``.  Buffers are among the bytes, because a
    model may write into them; nobody writes into parameters.
    """

    class Pickler(pickler):
        def reducer_override(self, given):
            if type(given) is torch.nn.Parameter and given.device.type == "cpu" and given.numel():
                raw = given.detach().contiguous().flatten().view(torch.uint8).numpy()
                about = given.dtype, tuple(given.shape), given.requires_grad
                return _parameter, (pickle.PickleBuffer(raw), *about)
            return super().reducer_override(given)

    out, parameters = io.BytesIO(), []
    Pickler(out, protocol=5, buffer_callback=parameters.append).dump(function)
    apart = [np.frombuffer(each.raw(), np.uint8) for each in parameters]
    return [np.frombuffer(out.getbuffer(), np.uint8), *apart]


def unpacked(sent: Sequence[np.ndarray]) -> Callable:
    """Returns the function; its parameters share memory with ``sent``."""
    return pickle.loads(sent[0].data, buffers=sent[1:])


def _parameter(raw, dtype, shape, requires_grad):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given buffer is not writable")
        tensor = torch.frombuffer(raw, dtype=dtype).view(shape)
    return torch.nn.Parameter(tensor, requires_grad=requires_grad)
