"""Residual actions converge at the rates of conjugate gradients (Eq. 10, with lambda_{n-i+1})."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, exact, make_data
from itergp import RBF, ConjugateGradient, Matern32, MaxActions, Prior, UnitVector, condition

n = 30


def relative_errors(posterior, oracle):
    """|v* - v_i| / |v*| in the K_hat norm, for i = 0 .. rank, from the definition."""
    D, z = posterior.state.search_directions(), posterior.state.z[:, 0]
    norm = lambda u: np.sqrt(u @ oracle.K_hat @ u)  # noqa: E731
    return np.array([norm(oracle.v - D[:, :i] @ z[:i]) for i in range(posterior.rank + 1)]) / norm(oracle.v)


def bounds(eigenvalues, ranks):
    """Both rates, for ascending eigenvalues."""
    root = np.sqrt(eigenvalues[-1] / eigenvalues[0])
    largest = eigenvalues[len(eigenvalues) - ranks]  # lambda_{n-i+1}, counted from one
    return 2 * ((root - 1) / (root + 1)) ** ranks, (largest - eigenvalues[0]) / (largest + eigenvalues[0])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("form", ["residual", "conjugate"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_errors_stay_below_both_rates(kernel, form, seed):
    data, prior = make_data(n, seed=seed), Prior(KERNELS[kernel])
    oracle = exact(prior, data.X, data.y, 0.1, data.X_new)
    posterior = condition(prior, data.X, data.y, 0.1, ConjugateGradient(form=form), MaxActions(n - 1))
    errors, ranks = relative_errors(posterior, oracle), np.arange(1, posterior.rank + 1)
    condition_rate, eigenvalue_rate = bounds(np.linalg.eigvalsh(oracle.K_hat), ranks)
    assert (errors[1:] <= condition_rate + 1e-12).all()
    assert (errors[1:] <= eigenvalue_rate + 1e-12).all()
    assert errors[-1] < 0.1


@pytest.mark.parametrize("kernel", KERNELS)
def test_with_a_preconditioner_the_preconditioned_eigenvalues_count(kernel):
    data, prior = make_data(n), Prior(KERNELS[kernel])
    oracle = exact(prior, data.X, data.y, 0.1, data.X_new)
    first = condition(prior, data.X, data.y, 0.1, UnitVector("pivoted"), MaxActions(6))
    P = first.preconditioner()
    posterior = condition(prior, data.X, data.y, 0.1, ConjugateGradient(P), MaxActions(15))
    errors, ranks = relative_errors(posterior, oracle), np.arange(1, posterior.rank + 1)
    eigenvalues = scipy.linalg.eigh(oracle.K_hat, P @ np.eye(n), eigvals_only=True)
    condition_rate, eigenvalue_rate = bounds(eigenvalues, ranks)
    assert (errors[1:] <= condition_rate + 1e-12).all()
    assert (errors[1:] <= eigenvalue_rate + 1e-12).all()


def test_the_printed_index_is_violated():
    """lambda_{n-i} in place of lambda_{n-i+1} is no bound: some run exceeds it."""
    violated = 0
    for seed in range(20):
        for kernel in (RBF(0.7), Matern32(1.5)):
            data, prior = make_data(8, seed=seed), Prior(kernel)
            oracle = exact(prior, data.X, data.y, 0.01, data.X_new)
            posterior = condition(prior, data.X, data.y, 0.01, ConjugateGradient(), MaxActions(7))
            eigenvalues = np.linalg.eigvalsh(oracle.K_hat)
            errors, ranks = relative_errors(posterior, oracle)[1:], np.arange(1, posterior.rank + 1)
            printed = eigenvalues[7 - ranks]
            violated += (errors > (printed - eigenvalues[0]) / (printed + eigenvalues[0]) + 1e-9).any()
            assert (errors <= bounds(eigenvalues, ranks)[1] + 1e-12).all()
    assert violated > 0
