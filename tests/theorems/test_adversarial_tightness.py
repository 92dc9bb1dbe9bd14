"""Proposition 2 is tight: adversarial actions leave the mean at the prior until the last one (Sec. 3.1)."""

import numpy as np
import pytest

from helpers import KERNELS, exact, make_data
from itergp import Adversarial, LinearMean, MaxActions, Prior, condition


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_mean_stays_at_the_prior_for_n_minus_one_actions_and_is_exact_after_n(kernel):
    n, data = 18, make_data(18)
    prior = Prior(KERNELS[kernel], LinearMean([0.5, 1.0]))
    oracle = exact(prior, data.X, data.y, 0.05, data.X_new)
    moved = np.abs(oracle.mean - prior.mean(data.X_new)).max()
    assert moved > 0.1
    for actions in (1, 5, n - 2, n - 1):
        posterior = condition(prior, data.X, data.y, 0.05, Adversarial(), MaxActions(actions))
        assert posterior.rank == actions
        # u cond(K_hat) of the exact answer: nothing but rounding
        np.testing.assert_allclose(posterior.mean(data.X_new), prior.mean(data.X_new), atol=1e-10 * moved)
        assert np.abs(posterior.state.representer_weights).max() < 1e-10 * np.abs(oracle.v).max()
        np.testing.assert_allclose(posterior.state.residual[:, 0], oracle.b, atol=1e-10)  # rho(i) = 1
        assert (posterior.var(data.X_new) <= prior.var(data.X_new)).all()
    full = condition(prior, data.X, data.y, 0.05, Adversarial(), MaxActions(n))
    assert full.rank == n
    np.testing.assert_allclose(full.mean(data.X_new), oracle.mean, atol=1e-9)
    np.testing.assert_allclose(full.var(data.X_new), oracle.var, atol=1e-9)


def test_the_inverse_is_known_on_the_subspace_that_is_orthogonal_to_the_weights():
    data, prior = make_data(18), Prior(KERNELS["matern32"])
    oracle = exact(prior, data.X, data.y, 0.05, data.X_new)
    posterior = condition(prior, data.X, data.y, 0.05, Adversarial(), MaxActions(17))
    Sigma = np.linalg.inv(oracle.K_hat) - posterior.state.precision()
    remaining = np.outer(oracle.v, oracle.v) / (oracle.v @ oracle.b)  # one direction: that of v*
    np.testing.assert_allclose(Sigma, remaining, atol=1e-10 * np.abs(remaining).max())
