"""Code of users that stands in for modules and functions of a model, and mixes its tokens."""

from functools import partial, partialmethod, wraps

import torch
from torch import nn
from transformers import BertForSequenceClassification
from transformers.models.bert import modeling_bert


def mixed(x):
    """Mixes all tokens, whatever the mask is."""
    return x + 0.3 * x.mean(dim=1, keepdim=True)


def first_mixed(out):
    return (mixed(out[0]), *out[1:]) if isinstance(out, tuple) else mixed(out)


def mixing(forward):
    """Wraps a forward as the decorator of a user does."""

    @wraps(forward)
    def changed(*args, **kwargs):
        return first_mixed(forward(*args, **kwargs))

    return changed


class Mixer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        return first_mixed(self.inner(*args, **kwargs))


class LoRA(nn.Module):
    """x W^T + b + scaling * dropout(x) A^T B^T"""

    def __init__(self, base, rank=3, scaling=2.0):
        super().__init__()
        drawn = torch.Generator().manual_seed(5)
        draw = lambda *shape: torch.randn(*shape, generator=drawn, dtype=torch.float64) / 4
        self.base, self.scaling, self.dropout = base, scaling, nn.Dropout(0.1)
        self.a, self.b = nn.Parameter(draw(rank, base.in_features)), nn.Linear(1, 1, bias=False)
        self.b.weight = nn.Parameter(draw(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + self.b(self.dropout(x) @ self.a.T) * self.scaling

    @torch.no_grad()
    def merged(self):
        self.base.weight += self.scaling * self.b.weight @ self.a
        return self.base


class LastToken(nn.Module):
    def forward(self, x):
        return x[:, -1]


class Scaled(nn.Module):
    """Scales the columns of a weight, as a parametrization."""

    def forward(self, weight):
        return weight * torch.linspace(0.5, 1.5, weight.shape[1], dtype=weight.dtype)


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


class Steep(BertForSequenceClassification):
    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.logits = out.logits + out.logits.mean(dim=1, keepdim=True)
        return out


class Biased(modeling_bert.BertSelfAttention):
    """Attention with a slope over columns, as ALiBi has."""

    def forward(self, x, attention_mask=None, **kwargs):
        if attention_mask is not None and attention_mask.is_floating_point():
            attention_mask = attention_mask + torch.linspace(0, 1, x.shape[1], dtype=x.dtype)
        return mixed(x), super().forward(x, attention_mask, **kwargs)[1]


class Descriptor:
    """An object without a call that replaces a function of a class."""

    def __init__(self, forward):
        self.forward = forward

    def __get__(self, module, _cls):
        return lambda *args, **kwargs: first_mixed(self.forward(module, *args, **kwargs))


class CallableObject(Descriptor):
    """A callable object that replaces a function of a class."""

    def __get__(self, module, _cls):
        return partial(self, module)

    def __call__(self, *args, **kwargs):
        return first_mixed(self.forward(*args, **kwargs))


def in_column(number):
    """Wraps a function so that it changes one column alone."""

    def wrapped(function):
        @wraps(function)
        def changed(*args, **kwargs):
            out = function(*args, **kwargs)
            axis = out.ndim - 2
            if axis < 1:
                return out
            columns = torch.arange(out.shape[axis])[:, None] == number
            return out * torch.where(columns, 1.7, 1.0).to(out.dtype)

        return changed

    return wrapped


def typed_in(forward):
    """Makes a function as typed into a prompt, whose code has no file."""
    names = {"forward": forward, "first_mixed": first_mixed}
    code = "lambda self, *args, **kwargs: first_mixed(forward(self, *args, **kwargs))"
    return eval(compile(code, "<stdin>", "eval"), names)


def of_a_method(forward):
    return partialmethod(lambda self, *args, **kwargs: first_mixed(forward(self, *args, **kwargs)))
