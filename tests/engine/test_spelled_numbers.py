"""A number of Python or NumPy and a tensor of any shape give one relevance."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from axioms import kinds
from axioms.composites import ATTNLRP, BIAS, CP_LRP
from numeric import audit
from numeric.engine import marks
from numeric.engine.engine import Propagation
from tests.census.measure import audited
from tests.support import cases
from tests.support.changes import ACT, LAYER, on, then

X = torch.tensor([[-2.5, -1.0, -0.25, 0.0], [0.3, 0.75, 2.0, 9.0]], dtype=torch.float64)
C = torch.tensor([[1.0, -2.0, 0.5, 3.0], [1.5, 1.0, -1.0, 2.0]], dtype=torch.float64)

SPELLED = {
    "NumPy": np.float64,
    "0-dim": lambda n: torch.tensor(n, dtype=torch.float64),
    "one entry": lambda n: torch.full((1,), n, dtype=torch.float64),
    "row": lambda n: torch.full((4,), n, dtype=torch.float64),
    "full": lambda n: torch.full(X.shape, n, dtype=torch.float64),
    "parameter": lambda n: nn.Parameter(torch.full((4,), n, dtype=torch.float64)),
}

up = lambda x: x.clamp(-7, 7)

SUMS = {
    "clamp(x) + n": lambda x, n: up(x) + n,
    "n + clamp(x)": lambda x, n: n + up(x),
    "clamp(x) - n": lambda x, n: up(x) - n,
    "1 - sigmoid(x)": lambda x, n: n - torch.sigmoid(x),
    "rsub": lambda x, n: torch.rsub(torch.sigmoid(x), n),
    "add": lambda x, n: torch.add(up(x), n, alpha=2),
    "sub": lambda x, n: torch.sub(torch.tanh(x), n, alpha=0.5),
    "in place": lambda x, n: up(x).add_(n),
    "operator in place": lambda x, n: _added(torch.tanh(x), n),
    "x + n": lambda x, n: x + n,
    "2x + n": lambda x, n: x * 2 + n,
    "x * n": lambda x, n: x * n,
    "x / n": lambda x, n: x / n,
    "tanh(x) * n": lambda x, n: torch.tanh(x) * n,
    "tanh(x) / n": lambda x, n: torch.tanh(x) / n,
    "x ** 2 + n": lambda x, n: x**2 + n,
    "relu(x + n)": lambda x, n: torch.relu(x + n),
    "sigmoid(x - n)": lambda x, n: torch.sigmoid(x - n),
    "2 relu(tanh(x) + n) - n": lambda x, n: 2 * torch.relu(torch.tanh(x) + n) - n,
    "softplus": lambda x, n: torch.log(n + torch.exp(x)),
    "sigmoid": lambda x, n: n / (n + torch.exp(-x)),
    "reciprocal": lambda x, n: n / (n + torch.relu(x)),
    "GELU": lambda x, n: 0.5 * x * (n + torch.tanh(0.8 * (x + 0.04 * x**3))),
    "swish": lambda x, n: x * torch.sigmoid(n * x),
    "hard swish": lambda x, n: x * functional.relu6(x + n) / n,
    "lerp": lambda x, n: torch.lerp(torch.tanh(x), torch.sigmoid(x), n),
    "clamp_min": lambda x, n: x.clamp_min(n),
    "masked_fill": lambda x, n: torch.tanh(x).masked_fill(x > 0, n) + up(x),
    "softplus, scaled": lambda x, n: functional.softplus(x) * n + n,
    "where": lambda x, n: torch.where(x > 0, torch.tanh(x), n),
}  # fmt: skip


def _added(x, n):
    x += n
    return x


def relevance(function, *numbers, eps=0.0):
    """The relevance of every entry of x, and the value of the function times c."""
    x = X.clone().requires_grad_()
    with Propagation(nn.Module(), ATTNLRP, eps=eps):
        y = function(x.clone(), *numbers)
        (c,) = torch.autograd.grad((y * C).sum(), x)
    return X * c, (y * C).detach()


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize("name", SUMS)
def test_one_function_has_one_relevance_however_its_numbers_are_written(name, spelled):
    if (name, spelled) in NO_CALL:
        pytest.skip("torch takes no such number here")
    # A row scales as a layer does, with a stabiliser; a number scales without one.
    for eps in (0.0,) if name in OF_LAYERS else (0.0, 0.125):
        (want, value), (found, same) = (
            relevance(SUMS[name], n, eps=eps) for n in (1.5, SPELLED[spelled](1.5))
        )
        torch.testing.assert_close(same, value)
        torch.testing.assert_close(found, want)


OF_LAYERS = ("x + n", "2x + n", "x * n", "x / n", "relu(x + n)", "sigmoid(x - n)", "swish")
OF_LAYERS += ("hard swish", "lerp", "GELU")
NO_CALL = [("masked_fill", each) for each in ("one entry", "row", "full", "parameter")]
SAME = {
    "sigmoid": (
        torch.sigmoid,
        lambda x: 1 / (1 + torch.exp(-x)),
        lambda x: torch.exp(x) / (1 + torch.exp(x)),
        lambda x: 0.5 + torch.tanh(x / 2) / 2,
        lambda x: 1 - torch.sigmoid(-x),
        lambda x: (1 + torch.exp(-x)) ** -1,
        lambda x: (torch.exp(-x) * 1 + 1).reciprocal(),
    ),
    "softplus": (
        functional.softplus,
        lambda x: torch.log(1 + torch.exp(x)),
        lambda x: torch.log1p(torch.exp(x)),
        lambda x: x - functional.logsigmoid(x),
        lambda x: torch.relu(x) + torch.log1p(torch.exp(-x.abs())),
    ),
    "tanh + 1": (lambda x: torch.tanh(x) + 1, lambda x: 2 * torch.sigmoid(2 * x)),
    "cos": (torch.cos, lambda x: 1 - 2 * torch.sin(x / 2) ** 2),
    "floor": (lambda x: x.clamp(min=1.5), lambda x: torch.maximum(x, torch.full_like(x, 1.5))),
    "SiLU": (
        functional.silu,
        lambda x: x * torch.sigmoid(x),
        lambda x: x * (1 - torch.sigmoid(-x)),
        lambda x: x * (1 / (1 + torch.exp(-x))),
        lambda x: (-x) * torch.sigmoid(x).negative(),
        lambda x: x * functional.dropout(torch.sigmoid(x), 0.1, training=False),
    ),
    "(1 + tanh)^2": (
        lambda x: (1 + torch.tanh(x)) ** 2,
        lambda x: (1 + torch.tanh(x)).clone() ** 2,
        lambda x: (1 + torch.tanh(x)).contiguous() ** 2,
        lambda x: functional.dropout(1 + torch.tanh(x), 0.1, training=False) ** 2,
        lambda x: nn.Dropout1d().eval()(1 + torch.tanh(x)) ** 2,
        lambda x: nn.Identity()(1 + torch.tanh(x)) ** 2,
        lambda x: (1 + torch.tanh(x)).to(x.dtype) ** 2,
        lambda x: (1 + torch.tanh(x)).to(x, copy=True) ** 2,
        lambda x: ((1 + torch.tanh(x)) * 1 + 0) ** 2,
        lambda x: (1 + torch.tanh(x)).add_(0).pow_(2),
        lambda x: (1 + torch.tanh(x)) * torch.tanh(x).add_(1),
    ),
    "GELU": (functional.gelu, lambda x: x * 0.5 * torch.erfc(-x / 2**0.5)),
    "ceiling": (lambda x: x.clamp(max=-1.5), lambda x: torch.min(x, torch.full_like(x, -1.5))),
}


@pytest.mark.parametrize("name", SAME)
def test_one_function_of_each_entry_has_one_relevance_however_it_is_spelled(name):
    """The value at 0 absorbs its share, so that no function here has a pole at 0."""
    first, *others = SAME[name]
    (want, value), zero = relevance(first), first(torch.zeros(1, dtype=torch.float64))
    torch.testing.assert_close(want, value - C * zero)
    for other in others:
        found, same = relevance(other)
        torch.testing.assert_close(same, value)
        torch.testing.assert_close(found, want)


FULL, MATRIX = torch.full_like(X, 1.5), torch.rand(4, 4, dtype=torch.float64)
NAMED = {
    "add": (torch.add, {"input": "x", "other": 1}),
    "sub": (torch.sub, {"input": 1, "other": "x"}),
    "mul": (torch.mul, {"input": FULL, "other": "x"}),
    "div": (torch.div, {"input": "x", "other": FULL}),
    "square": (torch.pow, {"input": "x", "exponent": 2}),
    "clamp": (torch.clamp, {"input": "x", "min": FULL, "max": 2 * FULL}),
    "maximum": (torch.maximum, {"input": "x", "other": FULL}),
    "minimum": (torch.minimum, {"input": FULL, "other": "x"}),
    "max": (torch.max, {"input": "x", "other": FULL}),
    "elu_": (functional.elu_, {"input": "x", "alpha": 0.5}),
    "feature_dropout_": (torch.feature_dropout_, {"input": "x", "p": 0.5, "train": False}),
    "where": (torch.where, {"condition": X > 0, "input": "x", "other": FULL}),
    "lerp": (torch.lerp, {"input": "x", "end": FULL, "weight": 0.5}),
    "matmul": (torch.matmul, {"input": "x", "other": MATRIX}),
    "mm": (torch.mm, {"input": "x", "mat2": MATRIX}),
    "addmm": (torch.addmm, {"input": FULL, "mat1": "x", "mat2": MATRIX}),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_operands_by_name_are_those_by_position(name):
    """In any order, and as many as code gives by name."""
    function, named = NAMED[name]
    at = lambda x, operand: 2 * torch.tanh(x) if isinstance(operand, str) else operand
    want, value = relevance(lambda x: function(*(at(x, each) for each in named.values())))
    assert want.abs().max() > 0
    for first in range(len(named)):
        keys = list(named)[first:]
        found, same = relevance(
            lambda x, first=first, keys=keys: function(
                *(at(x, each) for each in list(named.values())[:first]),
                **{key: at(x, named[key]) for key in reversed(keys)},
            )
        )
        torch.testing.assert_close(same, value)
        torch.testing.assert_close(found, want)


INNER = {
    "x": lambda x: x * 1.0,
    "2x": lambda x: x * 2,
    "clone": torch.clone,
    "tanh": torch.tanh,
}
WRITES = {
    "setitem": lambda y: y.__setitem__(y.detach() > 0.5, 0.25),
    "masked_fill_": lambda y: y.masked_fill_(y.detach() > 0.5, 0.25),
    "index_put_": lambda y: y.index_put_((y.detach() > 0.5,), y.new_tensor(0.25)),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("inner", INNER)
def test_what_code_writes_over_has_no_relevance(inner, write):
    """A tensor that is written to in part begins a new function."""

    def written(x):
        y = INNER[inner](x)
        WRITES[write](y)
        return torch.sigmoid(y) ** 2

    def filled(x):
        y = INNER[inner](x)
        return torch.sigmoid(y.masked_fill(y.detach() > 0.5, 0.25)) ** 2

    for found, want in zip(relevance(written), relevance(filled), strict=True):
        torch.testing.assert_close(found, want)


LIMITS = {
    "numbers": (0.42494, 0.42486),  # which torch prints alike
    "tensors": (torch.tensor(0.42494), torch.tensor(0.42486)),
    "rows": (torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0.1, 0.2, 0.3, 0.6])),
    "functions": (lambda x: torch.exp(-x), lambda x: torch.exp(-x) / 2),
}


@pytest.mark.parametrize("name", LIMITS)
def test_functions_with_unlike_limits_by_name_are_two(name):
    for limit in LIMITS[name]:
        at = limit if callable(limit) else lambda x, limit=limit: limit
        clamped = lambda x, at=at: torch.clamp(torch.sigmoid(x), max=at(x)).mT.mT
        found, value = relevance(clamped)
        torch.testing.assert_close(found, value - C * clamped(torch.zeros_like(X)))


def test_what_functions_are_at_zero_is_kept_for_few_of_them(monkeypatch):
    monkeypatch.setattr(marks, "MOST", 3)
    monkeypatch.setattr(marks, "_AT_ZERO", {})
    for n in range(9):
        relevance(lambda x, n=n: torch.clamp(torch.sigmoid(x), max=n / 10).mT.mT)
        assert 0 < len(marks._AT_ZERO) <= 3


@pytest.mark.parametrize("name", SUMS)
def test_numpy_and_the_audit_say_the_same_of_functions_that_are_not_0_at_0(name):
    """Numbers and tensors are added in a BERT, after its activation and after a linear layer."""
    for n in (1.5, torch.tensor([1.5], dtype=torch.float64)):
        if not isinstance(n, float) and (name, "one entry") in NO_CALL:
            continue
        model, inputs = cases.family("bert")
        act = then(lambda x, n=n: SUMS[name](x, n))
        on(act, LAYER(0) + ACT, LAYER(1) + ".attention.output.dense")({"model": model})
        assert audited(model, inputs, "sequence classification") < 1e-8


def test_the_audit_names_what_a_function_is_at_0_as_a_fixed_term():
    """The 1 in 1 + tanh absorbs as a bias does."""
    model, one = cases.one_text("bert")
    place = "bert.pooler.activation"
    on(then(lambda x: x + 1), place)({"model": model})
    lines = audit(model, one, CP_LRP).ledger.lines
    (line,) = [x for x in lines if x.kind == kinds.ADD and x.node.args[0].op == kinds.ACTIVATION]
    assert line.node.origin.module == place
    assert abs(line.absorbed[BIAS]) > 1e-3 * abs(line.arrived)
    assert abs(line.numerical) < 1e-12 * abs(line.arrived)
