"""Inputs far from the origin: every answer is that of the same inputs counted from a point among the data.

Offsets are multiples of a power of two above the spacing of float64 there, so that the shifted inputs have
the very same differences, and the oracle (dense, on the unshifted inputs) is exact.
"""

import numpy as np
import pytest
import scipy.linalg

from itergp import RBF, Compute, Matern32, MaxActions, Periodic, Prior, PseudoInput, UnitVector, condition
from itergp.baselines import exact

OFFSETS = (0.0, 1e6, 1e9, 1.7e12)
GRID = 2.0**-10  # inputs are multiples of it, which float64 holds exactly at 1.7e12
KERNELS = {
    "rbf": RBF(0.7),
    "matern32": 2.0 * Matern32(0.4),
    "periodic": Periodic(1.0, period=2.0),
    "sum": RBF(0.5) + Matern32(2.0),
}
NOISE = 0.01


def data(offset, n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.uniform(0, 4, (n, 2)) / GRID) * GRID
    T = np.round(rng.uniform(0, 4, (25, 2)) / GRID) * GRID
    y = np.sin(X.sum(axis=1)) + 0.1 * rng.standard_normal(n)
    assert np.array_equal((X + offset) - offset, X)
    return X, y, T


def oracle(kernel, X, y, T):
    """Mean and covariance of the exact GP, dense, with inputs near the origin."""
    L = scipy.linalg.cholesky(kernel(X, X) + NOISE * np.eye(len(X)), lower=True)
    W, z = (scipy.linalg.solve_triangular(L, B, lower=True) for B in (kernel(X, T), y))
    return W.T @ z, kernel(T, T) - W.T @ W


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_answer_of_an_exact_posterior_is_the_oracles(name, offset):
    kernel = KERNELS[name]
    X, y, T = data(offset)
    mean, cov = oracle(kernel, X, y, T)
    posterior = condition(Prior(kernel), X + offset, y, NOISE, UnitVector(block_size=16), MaxActions(len(X)))
    at = T + offset
    np.testing.assert_allclose(posterior.mean(at), mean, atol=1e-9)
    np.testing.assert_allclose(posterior.var(at), np.diag(cov), atol=1e-9)
    np.testing.assert_allclose(posterior.cov(at), cov, atol=1e-9)
    np.testing.assert_allclose(posterior.cov(at[:5], at[5:]), cov[:5, 5:], atol=1e-9)
    assert np.linalg.eigvalsh(posterior.cov(at)).min() > -1e-10
    np.testing.assert_allclose(exact(Prior(kernel), X + offset, y, NOISE).cov(at), cov, atol=1e-9)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("name", KERNELS)
def test_the_parts_of_a_posterior_are_the_oracles(name, offset):
    """decompose says exact=True: so the mathematical part is that of the exact GP, globally and with local
    actions."""
    kernel = KERNELS[name]
    X, y, T = data(offset)
    mean, cov = oracle(kernel, X, y, T)
    posterior = condition(Prior(kernel), X + offset, y, NOISE, PseudoInput(block_size=8), MaxActions(16))
    near = condition(Prior(kernel), X, y, NOISE, PseudoInput(block_size=8), MaxActions(16))
    for process, beside in ((posterior, near), (posterior.local(10), near.local(10))):
        parts = process.decompose(T + offset)
        assert parts.exact
        np.testing.assert_allclose(parts.mathematical, np.diag(cov), atol=1e-9)
        np.testing.assert_allclose(process.mean(T + offset), beside.mean(T), atol=1e-7)
        np.testing.assert_allclose(process.var(T + offset), beside.var(T), atol=1e-9)
        certificate = process.certify(T + offset)
        assert (certificate.variance_lower <= np.diag(cov) + 1e-12).all()
        assert (np.abs(process.mean(T + offset) - mean) <= certificate.mean_error + 1e-9).all()


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("engine", ["numpy", "jax", "native"])
def test_covariances_do_not_depend_on_the_engine(engine, offset):
    X, y, T = data(offset)
    posterior = condition(
        Prior(RBF(0.7)),
        X + offset,
        y,
        NOISE,
        UnitVector(block_size=16),
        MaxActions(len(X)),
        Compute(engine=engine),
    )
    np.testing.assert_allclose(posterior.cov(T + offset), oracle(RBF(0.7), X, y, T)[1], atol=1e-9)
