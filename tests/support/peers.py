"""Shows how other libraries explain pairs of implementations of one function.

Run ``python -m tests.support.peers`` where the dependency group ``peers`` is installed to print
the table of docs/SCOREBOARD.md.
"""

import importlib
import importlib.metadata
import types
import warnings

import torch

TOLERANCE = 1e-5  # relative to the largest relevance: above every library's own stabiliser
PACKAGES = {"lxt": "lxt.explicit.functional", "autolrp": "autolrp", "captum": "captum.attr"}

plain = types.SimpleNamespace(
    add=torch.add, mul=torch.mul, matmul=torch.matmul, linear=torch.nn.functional.linear
)


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


X, W1, B1, W2, B2 = row(1, 2), row(1, 1, 1, -2).view(2, 2), row(1, 2)[0], row(1, 2), row(1)[0]
TWICE = torch.cat([W1, W1[1:]]), torch.cat([B1, B1[1:]]), row(1, 1, 1)  # W2 = (1, 2) over 3
COLUMNS = [row(1, 2).T, row(1, 3).T, row(2, 5).T]

# rewrite -> (inputs, one implementation, another); each takes the library's operations first
PAIRS = {
    "re-associate products": ([row(2), row(3), row(4)],
        lambda o, a, b, c: o.mul(o.mul(a, b), c),
        lambda o, a, b, c: o.mul(a, o.mul(b, c))),
    "re-associate sums": ([row(3), row(-1), row(4)],
        lambda o, a, b, c: o.add(o.add(a, b), c),
        lambda o, a, b, c: o.add(a, o.add(b, c))),
    "distribute products": ([row(2), row(3), row(4)],
        lambda o, a, b, c: o.mul(a, o.add(b, c)),
        lambda o, a, b, c: o.add(o.mul(a, b), o.mul(a, c))),
    "factorize attention": (COLUMNS,
        lambda o, q, k, v: o.matmul(o.matmul(q, k.T), v),
        lambda o, q, k, v: o.matmul(q, o.matmul(k.T, v))),
    "fold linear": ([X],
        lambda o, x: o.linear(o.linear(x, W1, B1), W2, B2),
        lambda o, x: o.linear(x, W2 @ W1, W2 @ B1 + B2)),
    "duplicate neuron": ([X],
        lambda o, x: o.linear(o.linear(x, W1, B1), W2, B2),
        lambda o, x: o.linear(o.linear(x, *TWICE[:2]), TWICE[2], B2)),
}  # fmt: skip


def by_lxt(function, inputs):
    f = importlib.import_module(PACKAGES["lxt"])
    operations = types.SimpleNamespace(
        add=f.add2, mul=f.mul2, matmul=f.matmul, linear=f.linear_epsilon
    )
    leaves = [x.clone().requires_grad_() for x in inputs]
    output = function(operations, *leaves)
    output.backward(output.detach())
    return [x.grad for x in leaves]


def by_autolrp(function, inputs):
    autolrp = importlib.import_module("autolrp")
    leaves = [autolrp.tensor(x.clone()) for x in inputs]
    function(plain, *leaves).sum().lrp(
        config=autolrp.LRPConfig(rule={**autolrp.BASE, **autolrp.ATTNLRP})
    )
    return [torch.as_tensor(x.relevance) for x in leaves]


def by_captum(function, inputs):
    attr = importlib.import_module("captum.attr")
    forward = lambda *xs: function(plain, *xs).sum().reshape(1)
    leaves = tuple(x.clone().requires_grad_() for x in inputs)
    return list(attr.InputXGradient(forward).attribute(leaves))


PEERS = {
    "lxt": ("lxt", by_lxt),
    "autolrp": ("autolrp", by_autolrp),
    "captum InputXGradient": ("captum", by_captum),
}


def measure(peer, rewrite):
    """Relevance of both implementations, and whether they agree."""
    inputs, one, other = PAIRS[rewrite]
    assert torch.equal(one(plain, *inputs), other(plain, *inputs))
    found = [
        torch.cat([r.flatten() for r in PEERS[peer][1](f, inputs)]).detach() for f in (one, other)
    ]
    size = max(r.abs().max() for r in found)
    return found, bool((found[0] - found[1]).abs().max() <= TOLERANCE * size)


def version(peer):
    return importlib.metadata.version(PEERS[peer][0])


def cell(peer, rewrite):
    found, agrees = measure(peer, rewrite)
    first, second = ("/".join(f"{v:.4g}" for v in r.tolist()) for r in found)
    return f"✓ {first}" if agrees else f"✗ {first} vs {second}"


def as_markdown(peers):
    head = ["Rewrite", *(f"{peer} ({version(peer)})" for peer in peers)]
    lines = [head, ["---"] * len(head)]
    lines += [[rewrite, *(cell(peer, rewrite) for peer in peers)] for rewrite in PAIRS]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(as_markdown(PEERS))
