"""Zero computation gives back the prior (Eq. 2)."""

import numpy as np
import pytest

from helpers import KERNELS, PAIRS, exact, make_data, run
from itergp import LinearMean, MaxActions, Prior, condition


@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_no_action_gives_the_prior_to_the_bit(kernel, policy):
    r = run(kernel, policy, actions=0)
    X = r.data.X_new
    np.testing.assert_array_equal(r.posterior.mean(X), r.prior.mean(X))
    np.testing.assert_array_equal(r.posterior.var(X), r.prior.var(X))
    covariance = np.asarray(KERNELS[kernel](X, X))
    np.testing.assert_allclose(r.posterior.cov(X), (covariance + covariance.T) / 2, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_marginalising_the_prior_belief_about_the_weights_gives_the_prior(kernel):
    """p(f | v*) = N(mu + k v*, k_*) and p(v*) = N(0, K_hat^{-1}) have the marginal that zero actions give."""
    r = run(kernel, "cg", actions=0)
    k, X = r.oracle.k_new, r.data.X_new
    marginal = r.oracle.cov + k.T @ np.linalg.solve(r.oracle.K_hat, k)
    np.testing.assert_allclose(r.posterior.cov(X), marginal, atol=1e-12 * np.abs(marginal).max())


def test_no_action_gives_the_prior_for_several_targets_and_per_row_noise():
    data = make_data(20, targets=2)
    prior = Prior(KERNELS["matern32"], LinearMean([[0.1, 0.2], [0.3, -0.4]]))
    posterior = condition(prior, data.X, data.y, np.linspace(0.1, 0.2, 20), stop=MaxActions(0))
    np.testing.assert_array_equal(posterior.mean(data.X_new), prior.mean(data.X_new))
    np.testing.assert_array_equal(posterior.var(data.X_new), prior.var(data.X_new))


def test_one_action_does_not_give_the_prior():
    r = run("matern32", "cg", actions=1)
    X = r.data.X_new
    assert (r.posterior.var(X) < r.prior.var(X)).all()
    assert np.abs(r.posterior.mean(X) - r.prior.mean(X)).max() > 1e-3
    assert exact(r.prior, r.data.X, r.data.y, 0.05, X).var.max() < r.prior.var(X).max()
