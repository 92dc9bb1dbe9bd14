"""The by-products of any actions make a preconditioner P = N + U U^T, U = K D diag(eta)^(-1/2) (Remark S1,
corrected)."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, PAIRS, POLICIES, exact, make_data, row_noise, run
from itergp import ConjugateGradient, MaxActions, Prior, Schedule, condition


def condition_number(K_hat, P):
    """Of P^{-1/2} K_hat P^{-1/2}."""
    eigenvalues = scipy.linalg.eigh(K_hat, P, eigvals_only=True)
    return eigenvalues[-1] / eigenvalues[0]


@pytest.mark.parametrize("noise", [0.05, row_noise(30)], ids=["scalar", "per-row"])
@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_it_is_noise_plus_k_c_k_and_its_solve_is_the_inverse(kernel, policy, noise):
    r = run(kernel, policy, noise=noise)
    P, K = r.posterior.preconditioner(), r.oracle.K
    expected = np.diag(np.broadcast_to(noise, 30)) + K @ r.C @ K
    np.testing.assert_allclose(P @ np.eye(30), expected, atol=1e-11 * np.abs(K).max())
    V = np.random.default_rng(0).standard_normal((30, 3))
    np.testing.assert_allclose(
        P.solve(V), np.linalg.solve(expected, V), atol=1e-10 * np.abs(V).max() / np.min(noise)
    )
    np.testing.assert_allclose(P @ P.solve(V), V, atol=1e-10)
    # below K_hat in the Loewner order, so no eigenvalue of the preconditioned matrix is below one
    assert scipy.linalg.eigh(r.oracle.K_hat, expected, eigvals_only=True)[0] > 1.0 - 1e-10


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "adversarial"])
@pytest.mark.parametrize("kernel", ["rbf", "matern32", "sum"])
def test_it_lowers_the_condition_number(kernel, policy):
    r = run(kernel, policy, actions=12)
    K_hat = r.oracle.K_hat
    before, after = np.linalg.cond(K_hat), condition_number(K_hat, r.posterior.preconditioner() @ np.eye(30))
    assert after < before
    spread_over_data = (
        "unit-random",
        "unit-pivoted",
        "eigenvector",
        "cg",
        "cg-conjugate",
        "pseudo-input",
        "block-krylov",
        "schedule",
    )
    if policy in spread_over_data and kernel != "matern32":
        assert after < before / 3


def test_the_printed_form_raises_it():
    """U = K D diag(eta), with the unscaled D of the printed algorithm and its eta, for pseudo-input
    actions."""
    data, prior = make_data(30), Prior(KERNELS["matern32"])
    oracle = exact(prior, data.X, data.y, 0.05, data.X_new)
    K, K_hat, S = oracle.K, oracle.K_hat, oracle.K[:, :12]
    C, U_printed, U = np.zeros_like(K), [], []
    for s in S.T:
        d = s - C @ (K_hat @ s)
        eta = s @ K_hat @ d
        C = C + np.outer(d, d) / eta
        U_printed.append(K @ d * eta)
        U.append(K @ d / np.sqrt(eta))
    of = lambda U: condition_number(K_hat, 0.05 * np.eye(30) + np.array(U).T @ np.array(U))  # noqa: E731
    assert of(U) < np.linalg.cond(K_hat) < of(U_printed)


def test_cg_with_its_own_preconditioner_is_cg_with_the_one_given():
    data, prior = make_data(40), Prior(KERNELS["matern32"])
    first = condition(prior, data.X, data.y, 0.05, POLICIES["unit-pivoted"](), MaxActions(8))
    policy = Schedule((POLICIES["unit-pivoted"](), 8), (ConjugateGradient("self"), None))
    own = condition(prior, data.X, data.y, 0.05, policy, MaxActions(14))
    handed = first.refine(ConjugateGradient(first.preconditioner()), MaxActions(6))
    np.testing.assert_allclose(own.mean(data.X_new), handed.mean(data.X_new), atol=1e-12)
    np.testing.assert_allclose(own.cov(data.X_new), handed.cov(data.X_new), atol=1e-12)
