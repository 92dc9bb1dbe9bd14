"""Gradients of weighted sums of kernel values: dense weights, symmetric ones, the diagonal, and low rank."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from helpers import KERNELS
from itergp import RBF, Kernel, Matern12, Matern32
from itergp.linalg import engines
from itergp.linalg.engines import differences
from itergp.linalg.engines.jax import GRADIENT_TILE as TILE
from itergp.linalg.gram import GRADIENT_ROWS as ROWS, Gram
from itergp.prior.parameters import parameters

numpy = engines.get("numpy")  # which has the defaults of every engine
gradient, symmetric_gradient, diagonal_gradient = (
    numpy.weighted,
    numpy.weighted_symmetric,
    numpy.weighted_diagonal,
)
reference = differences.gradient


def assert_same(slopes, expected, rtol=1e-6, atol=1e-7):
    assert slopes.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_allclose(slopes[path], value, rtol=rtol, atol=atol)


def points(n, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 2))


@pytest.mark.parametrize("kernel", KERNELS)
def test_dense_weights_in_parameters_and_inputs(kernel):
    X, Z, W = points(20), points(11, seed=1), np.random.default_rng(2).standard_normal((20, 11))
    slopes, slope = gradient(KERNELS[kernel], X, Z, W)
    expected, expected_slope = reference(KERNELS[kernel], X, Z, W)
    assert_same(slopes, expected)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_diagonal(kernel):
    X, w = points(20), np.random.default_rng(2).standard_normal(20)
    assert_same(
        diagonal_gradient(KERNELS[kernel], X, w),
        reference(KERNELS[kernel], X, X, np.diag(w))[0],
    )


@pytest.mark.parametrize("n", [30, TILE + 40])
def test_symmetric_weights_are_read_from_their_lower_half(n):
    X, kernel, W = points(n), 1.3 * Matern32([0.4, 0.9]), np.random.default_rng(2).standard_normal((n, n))
    W = W + W.T
    slopes = symmetric_gradient(kernel, X, np.tril(W) + 99.0 * np.triu(np.ones((n, n)), 1))
    assert_same(slopes, gradient(kernel, X, X, W)[0], rtol=1e-10)
    assert_same(slopes, reference(kernel, X, X, W)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", [RBF([0.5, 0.8]), Matern32(0.6) * RBF(0.9)], ids=["native", "jax"])
def test_low_rank_weights_are_taken_in_blocks_of_rows(kernel):
    n = ROWS + 100
    rng = np.random.default_rng(0)
    X, A, B = points(n), rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
    gram, ticks = Gram(kernel, X), []
    slopes = gram.low_rank_gradient(A, B, tick=lambda: ticks.append(1))
    assert len(ticks) == 3
    assert_same(slopes, gradient(kernel, X, X, A @ B.T)[0], rtol=1e-8)
    some = np.array([3, 500, n - 1])
    assert_same(
        gram.low_rank_columns_gradient(some, A, B[:3]),
        gradient(kernel, X, X[some], A @ B[:3].T)[0],
        rtol=1e-8,
    )


@dataclass(frozen=True, eq=False)
class OnlyNumPy(Kernel):
    """A formula that JAX cannot trace."""

    lengthscale: Any = 1.0

    def __call__(self, X0, X1):
        return np.asarray(RBF(self.lengthscale)(np.array(X0), np.array(X1)))


def test_a_kernel_that_jax_cannot_trace_has_differences():
    X, Z, W = points(12), points(7, seed=1), np.random.default_rng(2).standard_normal((12, 7))
    for ours, theirs in zip(gradient(OnlyNumPy(0.7), X, Z, W), gradient(RBF(0.7), X, Z, W), strict=True):
        if isinstance(ours, dict):
            assert_same(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    S = W @ W.T
    assert_same(symmetric_gradient(OnlyNumPy(0.7), X, S), symmetric_gradient(RBF(0.7), X, S))
    assert_same(
        diagonal_gradient(3.0 * OnlyNumPy(0.7), X, X[:, 0]), diagonal_gradient(3.0 * RBF(0.7), X, X[:, 0])
    )


@pytest.mark.parametrize("engine", ["jax", "dense"])
@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-9, 1e-6])
def test_points_that_coincide_or_nearly_do_leave_the_gradient_right(engine, apart):
    """Matern 1/2 has a slope of 1/r in the squared distance: rounding times that must not come out."""
    X, kernel = points(40), Matern12([0.7, 0.4])
    X = np.concatenate([X, X + apart])
    W = np.random.default_rng(2).standard_normal((80, 80))
    slopes = (
        parameters(engines.get("jax").gradient(kernel, X, X, W, np.eye(80))[0])
        if engine == "jax"
        else gradient(kernel, X, X, W)[0]
    )
    s = [(X[:, None, f] - X[None, :, f]) ** 2 / kernel.lengthscale[f] ** 2 for f in range(2)]
    r = np.sqrt(sum(s))
    for f in range(2):  # d/dl exp(-r) = exp(-r) s_f / (r l)
        ratio = np.divide(s[f], r, out=np.zeros_like(r), where=r > 0)
        expected = float((W * np.exp(-r) * ratio / kernel.lengthscale[f]).sum())
        assert slopes["lengthscale"][f] == pytest.approx(expected, rel=1e-6)
