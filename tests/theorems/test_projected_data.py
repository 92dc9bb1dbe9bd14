"""The combined posterior is the prior conditioned on S^T y with noise S^T N S (footnote 1)."""

import numpy as np
import pytest
import scipy.stats

from helpers import KERNELS, POLICIES, exact, given, make_data, row_noise, run
from itergp import LinearMean, MaxActions, Prior, condition


def condition_gaussian(prior, X, y, N, S, X_new):
    """Rows X_new and X of f jointly, then S^T y = S^T f + S^T eps, by the conditional of a joint Gaussian."""
    both = np.concatenate([X_new, X])
    m, K = prior.mean(both), np.asarray(prior.kernel(both, both))
    A = np.concatenate([np.zeros((len(X_new), S.shape[1])), S])  # observes A^T f
    observed = A.T @ K @ A + S.T @ np.diag(N) @ S
    gain = np.linalg.solve(observed, A.T @ K).T
    mean = m + gain @ (S.T @ y - A.T @ m)
    cov = K - gain @ (A.T @ K)
    return mean[: len(X_new)], cov[: len(X_new), : len(X_new)], observed


@pytest.mark.parametrize("noise", [0.05, row_noise(30)], ids=["scalar", "per-row"])
@pytest.mark.parametrize("policy", POLICIES)
def test_combined_posterior_is_the_prior_given_projected_data(policy, noise):
    r = run("matern32", policy, noise=noise)
    N = np.broadcast_to(noise, 30)
    mean, cov, _ = condition_gaussian(r.prior, r.data.X, r.data.y, N, r.Q, r.data.X_new)
    np.testing.assert_allclose(r.posterior.mean(r.data.X_new), mean, atol=1e-10)
    np.testing.assert_allclose(r.posterior.cov(r.data.X_new), cov, atol=1e-10)


@pytest.mark.parametrize("noise", [0.05, row_noise(30)], ids=["scalar", "per-row"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_only_the_projections_of_the_data_matter(kernel, noise):
    """Actions as given, not orthonormal; and any y with the same S^T (y - mu) gives the same posterior."""
    data, prior = make_data(30), Prior(KERNELS[kernel], LinearMean([1.0, -1.0]))
    rng = np.random.default_rng(5)
    S = rng.standard_normal((30, 7)) * np.logspace(-3, 3, 7)
    posterior = condition(prior, data.X, data.y, noise, given(S, 4), MaxActions(7))
    scaled = S / np.linalg.norm(S, axis=0)
    mean, cov, _ = condition_gaussian(prior, data.X, data.y, np.broadcast_to(noise, 30), scaled, data.X_new)
    np.testing.assert_allclose(posterior.mean(data.X_new), mean, atol=1e-10 * max(1.0, np.abs(mean).max()))
    np.testing.assert_allclose(posterior.cov(data.X_new), cov, atol=1e-10 * np.abs(cov).max())
    u = rng.standard_normal(30)
    u -= scaled @ np.linalg.lstsq(scaled, u, rcond=None)[0]  # S^T u = 0
    other = condition(prior, data.X, data.y + 10 * u, noise, given(S, 4), MaxActions(7))
    np.testing.assert_allclose(other.mean(data.X_new), posterior.mean(data.X_new), atol=1e-9)


@pytest.mark.parametrize("noise", [0.05, row_noise(30)], ids=["scalar", "per-row"])
@pytest.mark.parametrize("policy", POLICIES)
def test_projected_log_likelihood_is_that_of_the_projected_data(policy, noise):
    r = run("matern52", policy, noise=noise)
    _, _, G = condition_gaussian(r.prior, r.data.X, r.data.y, np.broadcast_to(noise, 30), r.Q, r.data.X_new)
    expected = scipy.stats.multivariate_normal(np.zeros(len(G)), G).logpdf(r.Q.T @ r.oracle.b)
    assert r.posterior.state.projected_log_likelihood == pytest.approx(expected, rel=1e-10)
    whole = exact(r.prior, r.data.X, r.data.y, noise, r.data.X_new).log_likelihood
    full = run(
        "matern52", "unit-sequential", actions=30, noise=noise
    ).posterior.state.projected_log_likelihood
    assert full == pytest.approx(whole, rel=1e-10)
