"""Observations one after the other, in blocks, or all at once give the same belief (Prop. S3)."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, combined, exact, given, make_data, row_noise, run
from itergp import MaxActions, Prior, condition


def algorithm_1(K_hat, b, S):
    """The printed loop: representer weights, precision and covariance after each action."""
    v, C, Sigma0 = np.zeros_like(b), np.zeros_like(K_hat), np.linalg.inv(K_hat)
    for s in S.T:
        r = b - K_hat @ v
        alpha = s @ r
        d = s - C @ (K_hat @ s)
        eta = s @ K_hat @ d
        C = C + np.outer(d, d) / eta
        v = v + alpha / eta * d
    return v, C, Sigma0 - C


@pytest.mark.parametrize("noise", [0.1, row_noise(25)], ids=["scalar", "per-row"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_sequential_block_and_batch_agree(kernel, noise):
    """Random actions are well conditioned (cond < 1e2), so the printed loop is accurate and 1e-9 is tight."""
    data, prior = make_data(25), Prior(KERNELS[kernel])
    S = np.random.default_rng(1).standard_normal((25, 9))
    oracle = exact(prior, data.X, data.y, noise, data.X_new)
    C, mean, cov = combined(oracle, prior, S, data.X_new)
    v, C_loop, Sigma = algorithm_1(oracle.K_hat, oracle.b, S)
    size = np.abs(C).max()
    np.testing.assert_allclose(C_loop, C, atol=1e-9 * size)
    np.testing.assert_allclose(Sigma, np.linalg.inv(oracle.K_hat) - C, atol=1e-9 * size)
    for block_size in (1, 2, 4, 9):
        posterior = condition(prior, data.X, data.y, noise, given(S, block_size), MaxActions(9))
        np.testing.assert_allclose(posterior.state.precision(), C, atol=1e-9 * size)
        np.testing.assert_allclose(posterior.state.representer_weights[:, 0], v, atol=1e-9 * np.abs(v).max())
        np.testing.assert_allclose(posterior.mean(data.X_new), mean, atol=1e-9 * np.abs(mean).max())
        np.testing.assert_allclose(posterior.cov(data.X_new), cov, atol=1e-9 * np.abs(cov).max())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_policy_gives_the_batch_formula_of_its_actions(kernel, policy):
    r = run(kernel, policy)
    C, mean, cov = combined(r.oracle, r.prior, r.Q, r.data.X_new)
    np.testing.assert_allclose(r.posterior.state.precision(), C, atol=1e-10 * np.abs(C).max())
    np.testing.assert_allclose(r.posterior.mean(r.data.X_new), mean, atol=1e-10)
    np.testing.assert_allclose(r.posterior.cov(r.data.X_new), cov, atol=1e-10)
    np.testing.assert_allclose(r.posterior.var(r.data.X_new), np.diag(cov), atol=1e-10)


@pytest.mark.parametrize(
    "policy", ["unit-random", "eigenvector", "pseudo-input", "random", "block-krylov", "sparse-block"]
)
def test_the_same_actions_in_blocks_of_one_give_the_same_posterior(policy):
    r = run("matern32", policy)
    one = condition(r.prior, r.data.X, r.data.y, 0.05, given(r.Q), MaxActions(r.posterior.rank))
    X = r.data.X_new
    np.testing.assert_allclose(one.mean(X), r.posterior.mean(X), atol=1e-11)
    np.testing.assert_allclose(one.cov(X), r.posterior.cov(X), atol=1e-11)
    np.testing.assert_allclose(one.state.residual, r.posterior.state.residual, atol=1e-11)
    np.testing.assert_allclose(one.state.training_variance, r.posterior.state.training_variance, atol=1e-11)
    assert one.state.elbo == pytest.approx(r.posterior.state.elbo, rel=1e-10)
