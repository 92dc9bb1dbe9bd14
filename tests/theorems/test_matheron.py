"""Samples by Matheron's rule have the moments of the combined posterior (S3.3)."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, combined, make_data, run
from itergp import Constant, Linear, LinearMean, MaxActions, Prior, condition

Z = 5.0  # standard errors: a chance of 6e-7 per entry, of 1e-4 for a whole matrix; seeds are fixed anyway


def check_moments(draws, mean, cov):
    """Draws (size, m) against N(mean, cov): standard errors sqrt(c_ii / N) and sqrt((c_ii c_jj + c_ij^2) /
    N)."""
    size, var = len(draws), np.diag(cov)
    assert (np.abs(draws.mean(axis=0) - mean) <= Z * np.sqrt(var / size) + 1e-12).all()
    second = (draws - mean).T @ (draws - mean) / size
    assert (np.abs(second - cov) <= Z * np.sqrt((np.outer(var, var) + cov**2) / size) + 1e-12).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_joint_samples_have_the_mean_and_covariance_of_the_posterior(policy):
    r = run("matern32", policy)
    _, mean, cov = combined(r.oracle, r.prior, r.Q, r.data.X_new)
    check_moments(r.posterior.sample(r.data.X_new, 20_000, seed=3), mean, cov)


@pytest.mark.parametrize("kernel", KERNELS)
def test_sample_functions_have_the_moments_of_the_posterior(kernel):
    """Random features differ between seeds and are unbiased, so second moments per seed are independent,
    with the right mean.

    Their standard error is estimated from 400 seeds; 6 of them allow for the heavier tail of an estimated
    one.
    """
    r = run(kernel, "pseudo-input", actions=8, n=20)
    X = r.data.X_new[:6]
    _, mean, cov = combined(r.oracle, r.prior, r.Q, r.data.X_new)
    mean, cov = mean[:6], cov[:6, :6]
    seeds = 400
    draws = np.stack([r.posterior.sample_function(16, seed=s, features=64)(X) for s in range(seeds)]) - mean
    first = draws.mean(axis=1)
    second = np.einsum("sdi,sdj->sij", draws, draws) / 16
    for moment, expected in ((first, 0.0), (second, cov)):
        error = moment.std(axis=0, ddof=1) / np.sqrt(seeds)
        assert (np.abs(moment.mean(axis=0) - expected) <= 6.0 * error).all()
        # the test sees
        assert (error <= 0.15 * np.sqrt(np.diag(cov).max()) * max(1.0, np.sqrt(np.diag(cov).max()))).all()


def test_exact_features_have_exact_moments():
    """A linear kernel is its own feature map: draws with one seed have the posterior's covariance, not
    only on average."""
    data = make_data(20)
    prior = Prior(Linear(lengthscale=0.8) + Constant(0.5), LinearMean([0.1, 0.2]))
    posterior = condition(prior, data.X, data.y, 0.05, POLICIES["cg"](), MaxActions(2))
    sample = posterior.sample_function(20_000, seed=0)
    assert sample.exact
    check_moments(sample(data.X_new), posterior.mean(data.X_new), posterior.cov(data.X_new))


@pytest.mark.parametrize("policy", ["cg", "unit-pivoted", "block-krylov"])
@pytest.mark.parametrize("kernel", ["rbf", "product", "on-columns"])
def test_a_sample_is_one_function_wherever_and_whenever_it_is_evaluated(kernel, policy):
    r = run(kernel, policy)
    f, X = r.posterior.sample_function(3, seed=5), r.data.X_new
    values = f(X)
    np.testing.assert_array_equal(f(X), values)
    np.testing.assert_allclose(f(X[::-1])[:, ::-1], values, atol=1e-12)
    np.testing.assert_allclose(f(X[4:7]), values[:, 4:7], atol=1e-12)
    np.testing.assert_array_equal(r.posterior.sample_function(3, seed=5)(X), values)
    assert np.abs(r.posterior.sample_function(3, seed=6)(X) - values).max() > 1e-2
    assert np.abs(values[0] - values[1]).max() > 1e-3


def test_several_targets_share_the_covariance_and_have_means_of_their_own():
    data, prior = make_data(20, targets=2), Prior(KERNELS["matern32"])
    posterior = condition(prior, data.X, data.y, 0.05, POLICIES["random"](), MaxActions(8))
    X = data.X_new[:5]
    draws = posterior.sample(X, 20_000, seed=1)
    assert draws.shape == (20_000, 5, 2)
    for t in range(2):
        check_moments(draws[:, :, t], posterior.mean(X)[:, t], posterior.cov(X))
    cross = np.mean(
        (draws[:, :, 0] - posterior.mean(X)[:, 0]) * (draws[:, :, 1] - posterior.mean(X)[:, 1]), axis=0
    )
    assert (np.abs(cross) <= Z * posterior.var(X) / np.sqrt(20_000)).all()
    functions = np.concatenate([posterior.sample_function(64, seed=s, features=64)(X) for s in range(100)])
    error = functions.reshape(100, 64, 5, 2).mean(axis=1).std(axis=0, ddof=1) / 10
    assert (np.abs(functions.mean(axis=0) - posterior.mean(X)) <= 6.0 * error).all()
