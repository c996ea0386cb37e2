"""The divisor of a norm is held, however code computes it, and the audit says the same."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from axioms.composites import ATTNLRP, CP_LRP, UnassignedOperation
from numeric import attribute
from tests.support.audits import audit_of, behind, with_graph

SMALL = 1e-3


def mean_square(x):
    return x.pow(2).mean(-1, keepdim=True) + SMALL


def written(s, how):
    """1/sqrt(s) in the memory of s."""
    if how == "**=":
        s **= -0.5
    elif how == ":":
        s[:] = torch.rsqrt(s)
    elif how == "...":
        s[...] = torch.rsqrt(s)
    else:
        s.copy_(s.rsqrt())
    return s


def by_einsum(x):
    return torch.einsum("...d,...d->...", x, x)[..., None] / 24 + SMALL


def length(x):
    return x.norm(dim=-1, keepdim=True)


def size(x):
    return x.abs().mean(-1, keepdim=True)


ALIKE = {
    "root mean square": {
        "rsqrt": lambda x: x * torch.rsqrt(mean_square(x)),
        "sqrt": lambda x: x / mean_square(x).sqrt(),
        "power": lambda x: x * mean_square(x) ** -0.5,
        "float power": lambda x: x * torch.float_power(mean_square(x), -0.5),
        "power by name": lambda x: x * mean_square(x).pow(exponent=-0.5),
        "both by name": lambda x: x * torch.pow(input=mean_square(x), exponent=-0.5),
        "power of one entry": lambda x: x * mean_square(x) ** x.new_tensor([-0.5]),
        "powers in a row": lambda x: x * mean_square(x) ** x.new_full((24,), -0.5),
        "inverse in a row": lambda x: x * (mean_square(x) ** x.new_full((24,), -1)).sqrt(),
        "divisor by name": lambda x: torch.div(x, other=mean_square(x).sqrt()),
        "factor by name": lambda x: x.mul(other=mean_square(x).rsqrt()),
        "held by name": lambda x: x * torch.mul(2, other=mean_square(x).rsqrt()) / 2,
        "in place": lambda x: x * mean_square(x).rsqrt_(),
        "power in place": lambda x: x * mean_square(x).pow_(-0.5),
        "power by an operator": lambda x: x * written(mean_square(x), "**="),
        "in place, reciprocal": lambda x: x * mean_square(x).sqrt_().reciprocal_(),
        "over all of it": lambda x: x * written(mean_square(x), ":"),
        "over all of it, ...": lambda x: x * written(mean_square(x), "..."),
        "copied": lambda x: x * written(mean_square(x), "copy_"),
        "a floor, copied": lambda x: x * (mean_square(x) + 0).clamp(min=1e-9).clone().rsqrt(),
        "reciprocal, sqrt": lambda x: x * mean_square(x).reciprocal().sqrt(),
        "sqrt, reciprocal": lambda x: x * mean_square(x).sqrt().reciprocal(),
        "1 /": lambda x: x * (1 / mean_square(x)).sqrt(),
        "power of -1": lambda x: x * (mean_square(x) ** -1) ** 0.5,
        "a floor": lambda x: x * (mean_square(x) + 0).clamp(min=1e-9).rsqrt(),
        "product": lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) / 24 + SMALL),
        "einsum": lambda x: x * torch.rsqrt(by_einsum(x)),
        "einsum, reciprocal": lambda x: x * by_einsum(x).reciprocal().sqrt(),
        "einsum, number in a tensor": lambda x: (
            x * torch.rsqrt(by_einsum(x) - SMALL + x.new_full((1,), SMALL))
        ),
        "rows by columns": lambda x: (
            x * torch.rsqrt((x[..., None, :] @ x[..., None])[..., 0] / 24 + SMALL)
        ),
        "diagonal": lambda x: (
            x * torch.rsqrt((x @ x.mT).diagonal(dim1=-2, dim2=-1)[..., None] / 24 + SMALL)
        ),
        "inner": lambda x: (
            x * torch.rsqrt(torch.inner(x[0], x[0]).diagonal()[:, None] / 24 + SMALL)
        ),
        "vecdot": lambda x: x * torch.rsqrt(torch.linalg.vecdot(x, x)[..., None] / 24 + SMALL),
        "rms_norm": lambda x: functional.rms_norm(x, (24,), eps=SMALL),
    },
    "length": {
        "norm": lambda x: x / length(x),
        "norm, reciprocal": lambda x: x * length(x).reciprocal(),
        "vector_norm": lambda x: x / torch.linalg.vector_norm(x, dim=-1, keepdim=True),
        "linalg.norm": lambda x: x * (1 / torch.linalg.norm(x, dim=-1, keepdim=True)),
        "matrix_norm": lambda x: x / torch.linalg.matrix_norm(x[..., None, :])[..., None],
        "normalize": lambda x: functional.normalize(x, dim=-1),
        "einsum": lambda x: x / torch.einsum("...d,...d->...", x, x)[..., None].sqrt(),
    },
    "mean size": {
        "/": lambda x: x / size(x),
        "1 /": lambda x: x * (1 / size(x)),
        "reciprocal": lambda x: x * size(x).reciprocal(),
        "power": lambda x: x * size(x) ** -1,
        "a floor": lambda x: x * (1 / size(x).clamp(min=1e-9)),
    },
    "standard deviation": {
        "std": lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
        "var": lambda x: (x - x.mean(-1, keepdim=True)) * x.var(-1, keepdim=True).rsqrt(),
        "var_mean": lambda x: (x - torch.var_mean(x, -1, keepdim=True)[1]) / x.var(-1)[..., None]
        ** 0.5,
    },
    "what CP-LRP holds anyway": {
        "softmax": lambda x: x / (1 + x.softmax(-1)).sqrt(),
        "rsqrt": lambda x: x * (1 + x.softmax(-1)).rsqrt(),
    },
}  # fmt: skip
SETTINGS = [(composite, epsilon) for composite in (ATTNLRP, CP_LRP) for epsilon in (0.0, 0.25)]


def explained(function):
    """By rules and stabiliser, as the engine and as the audit find it."""
    model, inputs = behind(function)
    captured = with_graph(model, inputs)
    for composite, epsilon in SETTINGS:
        found = attribute(model, inputs, composite, target=1, epsilon=epsilon)
        yield found.relevance[0].numpy(), audit_of(captured, composite, epsilon).relevance


@pytest.mark.parametrize("norm", ALIKE)
def test_a_norm_has_one_explanation_however_it_is_spelled(norm):
    first, *others = (list(explained(function)) for function in ALIKE[norm].values())
    for name, found in zip(ALIKE[norm], [first, *others], strict=True):
        for (fast, slow), (want, _) in zip(found, first, strict=True):
            np.testing.assert_allclose(fast, slow, rtol=1e-8, atol=1e-10, err_msg=name)
            np.testing.assert_allclose(fast, want, rtol=1e-8, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("at", [slice(1), "view"])
def test_what_norms_divide_by_is_not_written_into_a_part_of_an_activation(at):
    def norm(x):
        s = mean_square(x)
        if at == "view":
            return x * s[..., 0].rsqrt_()[..., None]
        s[at] = torch.rsqrt(s)[at]
        return x * s

    with pytest.raises(UnassignedOperation, match="what a norm divides by, written into a part"):
        attribute(*behind(norm), ATTNLRP, target=1)


EXPONENTIALS = {
    "exp": torch.exp,
    "by a number": lambda x: torch.exp(x) * 1,
    "by a mask": lambda x: torch.exp(x) * x.new_ones(24),
    "over a number": lambda x: torch.exp(x - 3) / 2,
    "in another format": lambda x: torch.exp(x).type(x.dtype),
    "copied": lambda x: torch.exp(x).clone(),
    "in place": lambda x: torch.exp(x).mul_(2),
    "exp2": lambda x: torch.exp2(x * np.log2(np.e)),
    "e**x": lambda x: np.e**x,
    "pow": lambda x: torch.pow(np.e, x),
    "pow, of a tensor": lambda x: torch.pow(x.new_tensor(2.0), exponent=x),
    "expm1": lambda x: torch.expm1(x) + 1,
    "1 + expm1": lambda x: torch.ones_like(x) + torch.expm1(x),
}


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_a_softmax_that_is_taken_apart_is_refused(name):
    def softmax(x):
        e = EXPONENTIALS[name](x)
        return e / e.sum(-1, keepdim=True)

    with pytest.raises(UnassignedOperation, match="exp, outside of a softmax"):
        attribute(*behind(softmax), ATTNLRP, target=1)


def test_a_function_of_one_activation_that_ends_in_a_root_is_no_norm():
    """As sqrt(softplus(x)) of routers: half of the relevance of a product with it is its own."""
    softplus = functional.softplus
    root, power, reciprocal = (
        list(explained(function))
        for function in (
            lambda x: x.roll(1, -1) * softplus(x).sqrt(),
            lambda x: x.roll(1, -1) * softplus(x) ** 0.5,
            lambda x: x.roll(1, -1) * (1 / softplus(x).rsqrt()),
        )
    )
    for alike in zip(root, power, reciprocal, strict=True):
        for each in np.concatenate(alike):
            np.testing.assert_allclose(each, alike[0][0], rtol=1e-8, atol=1e-10)
    given = behind(lambda x: x.roll(1, -1) * softplus(x).sqrt().detach())
    held = attribute(*given, ATTNLRP, target=1).relevance[0].numpy()
    assert abs(root[0][0] - held).max() > 1e-4
