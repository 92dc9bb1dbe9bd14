"""Unit-vector actions recover the (pivoted) Cholesky decomposition of K_hat (Thm. S3)."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, dense, make_data, row_noise
from itergp import MaxActions, Prior, UnitVector, condition

n = 24


def kernel_matrix(prior, X, noise):
    return np.asarray(prior.kernel(X, X)) + np.diag(np.broadcast_to(noise, len(X)))


def approximation(posterior, K_hat):
    """Q_i = K_hat C_i K_hat, Algorithm 1, line 12."""
    return K_hat @ posterior.state.precision() @ K_hat


@pytest.mark.parametrize("kernel", KERNELS)
def test_greedy_pivots_and_factor_are_those_of_lapack(kernel):
    """dpstrf pivots on the largest remaining diagonal of K_hat, which is k_i(x, x) + sigma^2 for rows not
    yet taken."""
    data, prior, noise = make_data(n), Prior(KERNELS[kernel]), 0.05
    K_hat = kernel_matrix(prior, data.X, noise)
    factor, pivots, rank, info = scipy.linalg.lapack.dpstrf(K_hat, lower=1)
    L, order = np.tril(factor), pivots - 1
    assert (rank, info) == (n, 0)
    posterior = condition(prior, data.X, data.y, noise, UnitVector("pivoted"), MaxActions(n))
    np.testing.assert_array_equal(dense(posterior.actions).argmax(axis=0), order)
    np.testing.assert_allclose(posterior.state.L, L, atol=1e-11 * np.abs(L).max())
    for i in (1, 4, 11, n):
        partial = condition(prior, data.X, data.y, noise, UnitVector("pivoted"), MaxActions(i))
        expected = np.zeros((n, n))
        expected[np.ix_(order, order)] = L[:, :i] @ L[:, :i].T  # P L_i L_i^T P^T
        np.testing.assert_allclose(approximation(partial, K_hat), expected, atol=1e-11 * np.abs(K_hat).max())


@pytest.mark.parametrize("noise", [0.05, row_noise(n)], ids=["scalar", "per-row"])
@pytest.mark.parametrize("block_size", [1, 5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_in_sequence_give_the_leading_columns_of_the_cholesky_factor(kernel, block_size, noise):
    data, prior = make_data(n), Prior(KERNELS[kernel])
    K_hat = kernel_matrix(prior, data.X, noise)
    L = np.linalg.cholesky(K_hat)
    for i in (1, 7, n):
        posterior = condition(prior, data.X, data.y, noise, UnitVector(block_size=block_size), MaxActions(i))
        np.testing.assert_allclose(posterior.state.L, L[:i, :i], atol=1e-12 * np.abs(L).max())
        columns = K_hat @ posterior.state.search_directions()  # l_j, all rows
        np.testing.assert_allclose(columns, L[:, :i], atol=1e-11 * np.abs(L).max())
        np.testing.assert_allclose(
            approximation(posterior, K_hat), L[:, :i] @ L[:, :i].T, atol=1e-11 * np.abs(K_hat).max()
        )


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "product"])
def test_any_order_gives_the_cholesky_factor_of_the_permuted_matrix(kernel):
    data, prior = make_data(n), Prior(KERNELS[kernel])
    K_hat, order = kernel_matrix(prior, data.X, 0.05), np.random.default_rng(0).permutation(n)
    L = np.linalg.cholesky(K_hat[np.ix_(order, order)])
    posterior = condition(prior, data.X, data.y, 0.05, UnitVector(order=order, block_size=4), MaxActions(10))
    np.testing.assert_allclose(posterior.state.L, L[:10, :10], atol=1e-12 * np.abs(L).max())
    permuted = approximation(posterior, K_hat)[np.ix_(order, order)]
    np.testing.assert_allclose(permuted, L[:, :10] @ L[:, :10].T, atol=1e-11 * np.abs(K_hat).max())
