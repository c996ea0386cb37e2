"""The reference's linear attention: one function in two factorizations, and theorem 8.

In ``qk_first`` the paths through q, k, v carry 1/4, 1/4, 1/2 of gradient x input, and in
``kv_first`` 1/2, 1/4, 1/4; the gradient here is a central difference of the forward pass.
"""

import numpy as np
import pytest

from tests.oracles import linear_attention

WIDTHS = {"query": 3, "key": 3, "value": 2}


def linear_network():
    rng = np.random.default_rng(0)
    shapes = {name: (n, 4) for name, n in WIDTHS.items()} | {"classifier": (3, 2)}
    parameters = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
    parameters["classifier.bias"] = rng.normal(size=3)
    return parameters, rng.normal(size=(5, 4))


def biased_network():
    """The linear network with a bias in each of the three projections."""
    parameters, x = linear_network()
    rng = np.random.default_rng(1)
    biases = {f"{name}.bias": rng.normal(size=n) for name, n in WIDTHS.items()}
    return parameters | biases, x


def central_difference(f, x, *, h=1e-5):
    """Gradient of f at x; exact up to rounding where f is quadratic along each entry."""
    gradient = np.empty_like(x)
    for index in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[index] = h
        gradient[index] = (f(x + step) - f(x - step)) / (2 * h)
    return gradient


PATHS = {"qk_first": (1 / 4, 1 / 4, 1 / 2), "kv_first": (1 / 2, 1 / 4, 1 / 4)}


def check_theorem_8(factorization):
    """Each path carries gradient x input over 2 to the number of products above it."""
    parameters, x = linear_network()
    got = linear_attention.relevance(parameters, x, factorization=factorization, target=2)
    projections = linear_attention.project(parameters, x)
    of_x = np.zeros_like(x)
    for n, name in enumerate(linear_attention.PATHS):

        def logit(part, n=n):
            parts = (*projections[:n], part, *projections[n + 1 :])
            return linear_attention.classify(parameters, *parts, factorization=factorization)[2]

        want = PATHS[factorization][n] * central_difference(logit, projections[n])
        np.testing.assert_allclose(getattr(got, name), want * projections[n], rtol=1e-6, atol=1e-8)
        of_x += x * (want @ parameters[f"{name}.weight"])
    np.testing.assert_allclose(got.x, of_x, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("factorization", PATHS)
def test_a_path_under_d_products_carries_gradient_times_input_over_two_to_the_d(factorization):
    check_theorem_8(factorization)


def test_the_two_factorizations_are_one_function():
    parameters, x = linear_network()
    left, right = (linear_attention.forward(parameters, x, factorization=name) for name in PATHS)
    np.testing.assert_allclose(left, right, rtol=1e-12)
    q, k, v = linear_attention.project(parameters, x)
    by_hand = np.einsum("jr,ir,ip,np->n", q, k, v, parameters["classifier.weight"]) / 25
    np.testing.assert_allclose(left, by_hand + parameters["classifier.bias"], rtol=1e-12)


def part(contribution, r, z, *, halves=2, eps=0.25):
    """One message of Eqs. 1 (halves=1) and 3, every index of the contribution kept."""
    return contribution * r / (halves * z + eps * np.where(z >= 0, 1, -1))


@pytest.mark.parametrize("factorization", PATHS)
def test_at_finite_eps_every_message_is_stabilised_after_the_division_by_t(factorization):
    parameters, x = biased_network()
    got = linear_attention.relevance(parameters, x, factorization=factorization, eps=0.25, target=2)
    layers = [(parameters[f"{name}.weight"], parameters[f"{name}.bias"]) for name in WIDTHS]
    q, k, v = (x @ weight.T + bias for weight, bias in layers)
    o = q @ k.T @ v / 5
    mean, weight = o.mean(axis=0), parameters["classifier.weight"][2]
    r = part(mean * weight, got.logit, got.logit, halves=1)
    r = part(o / 5, r, mean, halves=1)
    if factorization == "qk_first":
        s = q @ k.T / 5
        jip = part(s[:, :, None] * v, r[:, None], o[:, None])
        r_s = jip.sum(axis=2)[:, :, None]
        jir = part(q[:, None] * k / 5, r_s, s[:, :, None])
        want = jir.sum(axis=1), jir.sum(axis=0), jip.sum(axis=0)
    else:
        s = k.T @ v / 5
        jrp = part(q[:, :, None] * s, r[:, None], o[:, None])
        irp = part(k[:, :, None] * v[:, None] / 5, jrp.sum(axis=0), s)
        want = jrp.sum(axis=2), irp.sum(axis=2), irp.sum(axis=1)
    for name, exact in zip(WIDTHS, want, strict=True):
        np.testing.assert_allclose(getattr(got, name), exact, rtol=1e-10, atol=1e-14)
    of_x = 0
    for (weight, _), z, r in zip(layers, (q, k, v), want, strict=True):
        of_x = of_x + part(x[:, None] * weight, r[:, :, None], z[:, :, None], halves=1).sum(axis=1)
    np.testing.assert_allclose(got.x, of_x, rtol=1e-10, atol=1e-14)
