"""Eigenvector actions give truncated eigendecompositions of K_hat and of its inverse (Thm. S4)."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, exact, given, make_data, row_noise, run
from itergp import Eigenvector, MaxActions, Prior, condition


def gap_tolerance(eigenvalues, i):
    """How far rounding turns the space of the largest i eigenvectors: u lambda_1 / gap, with two digits to
    spare."""
    return 1e-13 * eigenvalues[0] / (eigenvalues[i - 1] - eigenvalues[i])


@pytest.mark.parametrize("i", [1, 3, 6])
@pytest.mark.parametrize("kernel", KERNELS)
def test_precision_and_approximation_are_truncated_decompositions(kernel, i):
    r = run(kernel, "eigenvector", actions=i)
    K_hat = r.oracle.K_hat
    eigenvalues, U = scipy.linalg.eigh(K_hat)
    eigenvalues, U = eigenvalues[::-1], U[:, ::-1]
    tolerance = gap_tolerance(eigenvalues, i)
    assert tolerance < 1e-10
    C, leading = r.posterior.state.precision(), U[:, :i]
    np.testing.assert_allclose(C, leading / eigenvalues[:i] @ leading.T, atol=tolerance / eigenvalues[i - 1])
    np.testing.assert_allclose(
        K_hat @ C @ K_hat, leading * eigenvalues[:i] @ leading.T, atol=tolerance * eigenvalues[0]
    )
    # best of rank i
    assert np.linalg.norm(K_hat - K_hat @ C @ K_hat, 2) == pytest.approx(eigenvalues[i], rel=1e-10)


@pytest.mark.parametrize("kernel", ["matern12", "rbf", "sum"])
def test_any_order_of_eigenvectors_will_do(kernel):
    data, prior, noise = make_data(20), Prior(KERNELS[kernel]), row_noise(20)
    K_hat = exact(prior, data.X, data.y, noise, data.X_new).K_hat
    eigenvalues, U = scipy.linalg.eigh(K_hat)
    some = np.random.default_rng(1).permutation(20)[:7]
    C = condition(prior, data.X, data.y, noise, given(U[:, some], 3), MaxActions(7)).state.precision()
    np.testing.assert_allclose(C, U[:, some] / eigenvalues[some] @ U[:, some].T, atol=1e-11 * np.abs(C).max())
    np.testing.assert_allclose(
        K_hat @ C @ K_hat, U[:, some] * eigenvalues[some] @ U[:, some].T, atol=1e-11 * eigenvalues[-1]
    )


@pytest.mark.parametrize("block_size", [1, 3, 30])
def test_the_posterior_does_not_depend_on_the_block_size(block_size):
    data, prior = make_data(30), Prior(KERNELS["matern32"])
    posterior = condition(prior, data.X, data.y, 0.05, Eigenvector(block_size=block_size), MaxActions(8))
    eigenvalues, U = scipy.linalg.eigh(np.asarray(prior.kernel(data.X, data.X)) + 0.05 * np.eye(30))
    k, U, eigenvalues = np.asarray(prior.kernel(data.X, data.X_new)), U[:, -8:], eigenvalues[-8:]
    expected = prior.var(data.X_new) - ((U.T @ k) ** 2 / eigenvalues[:, None]).sum(axis=0)
    np.testing.assert_allclose(posterior.var(data.X_new), expected, atol=1e-11)
