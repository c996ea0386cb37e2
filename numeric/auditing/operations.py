"""ATen operations as nodes of ``axioms.graph``: the closed table of what may carry relevance.

A function of the table gets ``make``, which builds a node at the operation's place in the model,
and the operation's operands.  An operand is a Node if relevance can reach it; every other one is
a number or a tensor that does not depend on the input, and ``make`` turns it into a parameter.
"""

import operator

from axioms import kinds
from axioms.graph import MOVE, Node


def is_carrying(x) -> bool:
    return isinstance(x, Node)


# Structure that has no kind of its own; ``recognition`` turns it into operations that have one.
POWER, MEAN, INVERSE_ROOT, ERF = "power", "mean over channels", "inverse root", "erf"


def _linear(make, x, weight, bias=None):
    return make(kinds.LINEAR, x, weight.mT, *([] if bias is None else [bias]))


def _addmm(make, bias, x, weight):
    return make(kinds.LINEAR, x, weight, bias)


def _matmul(make, a, b):
    if is_carrying(a) and is_carrying(b):
        return make(kinds.BILINEAR, a, b)
    return make(kinds.LINEAR, a, b) if is_carrying(a) else None


def _add(make, a, b, *, alpha=1):
    if alpha != 1:
        return None
    return make(kinds.ADD, *((a, b) if is_carrying(a) else (b, a)))


def _subtract(make, a, b, *, alpha=1):
    if alpha != 1:
        return None
    return make(kinds.ADD, a, -b) if not is_carrying(b) else make(kinds.ADD, _scale(make, b, -1), a)


def _scale(make, x, factor):
    """A fixed factor per entry is a linear map without a bias."""
    return make(kinds.LINEAR, x, factor, entrywise=True)


def _multiply(make, a, b):
    if is_carrying(a) and is_carrying(b):
        return make(kinds.PRODUCT, a, b)
    return _scale(make, a, b) if is_carrying(a) else _scale(make, b, a)


def _divide(make, a, b):
    return None if is_carrying(b) else _scale(make, a, 1 / b)


def _softmax(make, x, dim, _dtype=None):
    return make(kinds.SOFTMAX, x) if dim in (-1, len(x.attributes["shape"]) - 1) else None


def _layer_norm(make, x, shape, weight=None, bias=None, eps=1e-5, *_cudnn):
    if len(shape) != 1 or weight is None or bias is None:
        return None
    return make(kinds.LAYER_NORM, x, weight, bias, norm_eps=eps)


def _gelu(make, x, *, approximate="none"):
    name = {"none": "gelu", "tanh": "gelu tanh"}[approximate]
    return make(kinds.ACTIVATION, x, function=name)


def _activation(name):
    return lambda make, x: make(kinds.ACTIVATION, x, function=name)


def _same(make, x, *_arguments, **_options):
    return x


def _dropout(make, x, _rate, training):
    return None if training else x


def _in_shape(make, x, *_arguments, **_options):
    return make(MOVE, x, move="reshape", arguments=(make.shape,))


def _expand(make, x, _shape, **_options):
    return make(MOVE, x, move="broadcast", arguments=(make.shape,))


def _transpose(make, x, first, second):
    axes = list(range(len(x.attributes["shape"])))
    axes[first], axes[second] = axes[second], axes[first]
    return make(MOVE, x, move="permute", arguments=(tuple(axes),))


def _permute(make, x, axes):
    return make(MOVE, x, move="permute", arguments=(tuple(axes),))


def _at(make, x, dim, index):
    dim %= len(x.attributes["shape"])
    return make(MOVE, x, move="index", arguments=((slice(None),) * dim + (index,),))


def _slice(make, x, dim=0, start=None, end=None, step=1):
    return _at(make, x, dim, slice(start, end, step))


def _index(make, x, indices):
    index = tuple(slice(None) if i is None else i.cpu().numpy() for i in indices)
    return make(MOVE, x, move="index", arguments=(index,))


def _split(make, x, size, dim=0):
    length = x.attributes["shape"][dim]
    return [_slice(make, x, dim, at, min(at + size, length)) for at in range(0, length, size)]


def _chunk(make, x, count, dim=0):
    return _split(make, x, -(-x.attributes["shape"][dim] // count), dim)


def _concatenate(make, parts, dim=0):
    return make(MOVE, *parts, move="concatenate", arguments=(dim,), tokens=True)


def _power(make, x, exponent):
    return make(POWER, x, exponent=exponent)


def _mean(make, x, dims, keepdim=False):  # noqa: FBT002 - the signature is ATen's
    last = [d % len(x.attributes["shape"]) for d in dims] == [len(x.attributes["shape"]) - 1]
    return make(MEAN, x) if last and keepdim else None


OPERATIONS = {
    "aten.linear.default": _linear,
    "aten.addmm.default": _addmm,
    "aten.matmul.default": _matmul,
    "aten.mm.default": _matmul,
    "aten.bmm.default": _matmul,
    "aten.add.Tensor": _add,
    "aten.sub.Tensor": _subtract,
    "aten.mul.Tensor": _multiply,
    "aten.div.Tensor": _divide,
    "aten.neg.default": lambda make, x: _scale(make, x, -1),
    "aten.softmax.int": _softmax,
    "aten.layer_norm.default": _layer_norm,
    "aten.gelu.default": _gelu,
    "aten.tanh.default": _activation("tanh"),
    "aten.relu.default": _activation("relu"),
    "aten.silu.default": _activation("silu"),
    "aten.pow.Tensor_Scalar": _power,
    "aten.mean.dim": _mean,
    "aten.erf.default": lambda make, x: make(ERF, x),
    "aten.rsqrt.default": lambda make, x: make(INVERSE_ROOT, x),
    "aten.dropout.default": _dropout,
    "aten.to.dtype": _same,
    "aten.to.dtype_layout": _same,
    "aten.to.device": _same,
    "aten.type_as.default": _same,
    "aten.contiguous.default": _same,
    "aten.clone.default": _same,
    "aten.alias.default": _same,
    "aten.view.default": _in_shape,
    "aten.reshape.default": _in_shape,
    "aten._unsafe_view.default": _in_shape,
    "aten.flatten.using_ints": _in_shape,
    "aten.unsqueeze.default": _in_shape,
    "aten.squeeze.dim": _in_shape,
    "aten.expand.default": _expand,
    "aten.transpose.int": _transpose,
    "aten.permute.default": _permute,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _at,
    "aten.index.Tensor": _index,
    "aten.split.Tensor": _split,
    "aten.chunk.default": _chunk,
    "aten.cat.default": _concatenate,
    "aten._assert_tensor_metadata.default": lambda make, x, **_: None,
}
"""By ATen target: the node it becomes; None if it is used in a way that no rule covers."""

WITHOUT_VALUE = {"aten._assert_tensor_metadata.default"}

LEAVES = {"aten.embedding.default", "aten.conv2d.default"}
"""Where relevance ends: rows of an embedding table, and patches of an image."""

FUSED = {
    "aten.scaled_dot_product_attention.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
}
"""Attention in one operation, inside which no rule can act."""

ITEM = operator.getitem
