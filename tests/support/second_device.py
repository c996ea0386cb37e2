"""A second device on any machine: it computes on the CPU, and keeps tensors apart as a GPU does.

Importing this registers the device for the whole process, so tests run it in one of their own
(``tests.support.on_another_device``).  Tensors there are ``There``, and operations that mix places
raise.
"""

import copy

import torch
from torch import Tensor, nn
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

aten = torch.ops.aten
NAME = "elsewhere"
HERE = torch.device("cpu")
INDEXING = {aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default}
MIXED = f"on {NAME}, and on the CPU"
LACKING = set()  # dtypes that the device has not
NO_NUMBERS = {aten.clamp.Tensor, aten.clamp_min.Tensor, aten.clamp_max.Tensor}


class _Backend(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self):
        return [torch.float16, torch.bfloat16]


backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Backend())
PLACE = torch.device(NAME, 0)
torch._C._set_only_lift_cpu_tensors(True)  # noqa: FBT003 - for torch.tensor(..., device=PLACE)
torch.__future__.set_overwrite_module_params_on_conversion(True)


class There(Tensor):
    """A tensor that says it is on ``PLACE``; its numbers are on the CPU, in ``held``."""

    @staticmethod
    def __new__(cls, held: Tensor):
        about = dict(strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype)
        with torch.inference_mode(mode=False):  # where a wrapper cannot be made
            new = Tensor._make_wrapper_subclass(cls, held.size(), device=PLACE, **about)
        new.held = held
        return new

    __torch_dispatch__ = classmethod(lambda _cls, f, _types, args=(), kw=None: run(f, args, kw))

    def __repr__(self):
        return f"There({self.held})"

    def __deepcopy__(self, memo):
        copied = There(copy.deepcopy(self.held, memo))
        trained = isinstance(self, nn.Parameter)
        return nn.Parameter(copied, self.requires_grad) if trained else copied

    def __format__(self, spec):
        return format(self.held, spec)

    def tolist(self):
        return self.held.tolist()

    def untyped_storage(self):
        return self.held.untyped_storage()

    def data_ptr(self):
        return self.held.data_ptr()

    def numpy(self, *, force=False):
        if not force:
            raise TypeError(f"can't convert a tensor on {NAME} to numpy; use .cpu() first")
        return self.held.numpy(force=True)


class Elsewhere(TorchDispatchMode):
    """In this block tensors can be made on ``PLACE`` and moved to it and back."""

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        return run(f, args, kwargs)


def run(f, args, kwargs):
    """Runs ``f`` on the held tensors, if all of them are in one place."""
    kwargs = kwargs or {}
    if torch._C._dispatch_has_kernel_for_dispatch_key(f.name(), "CompositeImplicitAutograd"):
        with Elsewhere():  # its parts one by one
            return f.decompose(*args, **kwargs)
    there = [x for x in tree_leaves((args, kwargs)) if isinstance(x, There)]
    stays = bool(there)
    if kwargs.get("device") is not None:
        stays = torch.device(kwargs["device"]).type == NAME
        kwargs = kwargs | {"device": HERE}
    if f is aten.copy_.default:
        stays = isinstance(args[0], There)
    elif there and f is not aten._to_copy.default:
        _check(f, args, kwargs)
    known = {id(x.held): x for x in there}  # a tensor written in place stays itself
    args, kwargs = tree_map_only(There, lambda x: x.held, (args, kwargs))
    out = f(*args, **kwargs)
    if stays and any(x.dtype in LACKING for x in tree_leaves(out) if isinstance(x, Tensor)):
        raise TypeError(f"{f}: {NAME} has no {', '.join(map(str, LACKING))}")
    wrap = lambda x: known[id(x)] if id(x) in known else There(x) if stays else x
    return tree_map_only(Tensor, wrap, out)


def _check(f, args, kwargs):
    """Raises where a GPU would, if some tensors are elsewhere and others are not.

    Numbers that are read may be on the CPU, and indices of tensors elsewhere.
    """
    names = [argument.name for argument in f._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    if f in INDEXING and isinstance(given["self"], There):
        del given["indices"]
    numbers = (torch.Tag.pointwise in f.tags and f not in NO_NUMBERS) or f in INDEXING
    mixed = []
    for argument in f._schema.arguments:
        written = argument.alias_info is not None and argument.alias_info.is_write
        for x in tree_leaves(given.get(argument.name)):
            on_cpu = isinstance(x, Tensor) and not isinstance(x, There)
            if on_cpu and (x.ndim or written or not numbers):
                mixed.append(f"{argument.name}={x}")
    if mixed:
        raise RuntimeError(f"{f} has tensors {MIXED} {', '.join(mixed)}")


REFUSED = {
    "sum": lambda here, there: there + here,
    "sum in place": lambda here, there: here[0].add_(there[0]),
    "least": lambda here, there: there.clamp(max=here[0]),
    "concatenation": lambda here, there: torch.cat([there, here]),
    "selection": lambda here, there: here[there > 0],
    "assignment": lambda here, there: there.index_put_((here > 0,), here),
    "product": lambda here, there: torch.nn.functional.linear(there[None], here[None]),
    "numpy": lambda here, there: there.numpy(),
}
"""Operations on two vectors, one of them elsewhere, that a GPU refuses."""
ALLOWED = {
    "number": lambda here, there: there * here[0],
    "index": lambda here, there: there[here > 0],
    "number at an index": lambda here, there: there.index_put_((here > 0,), here[0]),
    "copy": lambda here, there: there.copy_(here),
    "move": lambda here, there: there + here.to(there.device),
}
