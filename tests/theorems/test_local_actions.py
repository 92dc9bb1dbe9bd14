"""Local actions: each point's marginal is the combined posterior for the actions [Q, E_J], between exact
and global."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, PAIRS, POLICIES, make_data, row_noise, run
from itergp import MaxActions, Prior, condition

NOISES = {"scalar": 0.05, "per-row": row_noise(30)}


def extended(r, j, rows):
    """Mean and variance at test point j for the actions [Q, E_J], by the batch formula in an orthonormal
    basis."""
    S = scipy.linalg.orth(np.column_stack([r.Q, np.eye(30)[:, rows]]), rcond=1e-9)
    k, K_hat = r.oracle.k_new[:, j], r.oracle.K_hat
    g = S @ np.linalg.solve(S.T @ K_hat @ S, S.T @ k)
    x = r.data.X_new[j : j + 1]
    return r.prior.mean(x)[0] + g @ r.oracle.b, r.prior.var(x)[0] - g @ k


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_marginals_are_those_of_the_extended_actions(kernel, policy, noise):
    r = run(kernel, policy, actions=8, noise=NOISES[noise])
    local, X = r.posterior.local(6), r.data.X_new
    mean, var, rows = local.mean(X), local.var(X), local.at(X).J
    expected = np.array([extended(r, j, rows[j]) for j in range(len(X))])
    np.testing.assert_allclose(mean, expected[:, 0], atol=1e-9)
    np.testing.assert_allclose(var, expected[:, 1], atol=1e-10)
    assert (var <= r.posterior.var(X) + 1e-12).all()  # k_local <= k_i
    assert (var >= r.oracle.var - 1e-10).all()  # k_* <= k_local


@pytest.mark.parametrize("policy", POLICIES)
def test_more_neighbours_lower_the_variance_until_the_exact_gp(policy):
    r = run("matern32", policy, actions=8)
    X = r.data.X_new
    variances = np.array([r.posterior.local(m).var(X) for m in (1, 3, 9, 20, 30)])
    assert (np.diff(variances, axis=0) <= 1e-11).all()
    whole = r.posterior.local(30)
    np.testing.assert_allclose(whole.mean(X), r.oracle.mean, atol=1e-8)
    np.testing.assert_allclose(whole.var(X), r.oracle.var, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_without_global_actions_it_is_the_exact_gp_on_the_neighbours(kernel):
    r = run(kernel, "cg", actions=0)
    X, rows = r.data.X_new, r.posterior.local(7).at(r.data.X_new).J
    mean, var = r.posterior.local(7).mean(X), r.posterior.local(7).var(X)
    for j in range(len(X)):
        J = rows[j]
        w = np.linalg.solve(r.oracle.K_hat[np.ix_(J, J)], r.oracle.k_new[J, j])
        assert mean[j] == pytest.approx(r.prior.mean(X[j : j + 1])[0] + w @ r.oracle.b[J], abs=1e-10)
        assert var[j] == pytest.approx(r.prior.var(X[j : j + 1])[0] - w @ r.oracle.k_new[J, j], abs=1e-10)


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32", "matern52", "rational-quadratic"])
def test_candidates_are_the_nearest_in_the_metric_of_the_kernel(kernel):
    """For stationary kernels those with the largest covariance, by brute force."""
    r = run(kernel, "cg", actions=2)
    rows = r.posterior.problem.gram.nearest(r.data.X_new, 5)
    np.testing.assert_array_equal(rows, np.argsort(-r.oracle.k_new, axis=0, kind="stable")[:5].T)


def test_several_targets_get_local_means():
    data, prior = make_data(30, targets=2), Prior(KERNELS["matern32"])
    both = condition(prior, data.X, data.y, 0.05, POLICIES["unit-sequential"](), MaxActions(6)).local(5)
    for t in range(2):
        one = condition(
            prior, data.X, data.y[:, t], 0.05, POLICIES["unit-sequential"](), MaxActions(6)
        ).local(5)
        np.testing.assert_allclose(both.mean(data.X_new)[:, t], one.mean(data.X_new), atol=1e-11)
        np.testing.assert_allclose(both.var(data.X_new), one.var(data.X_new), atol=1e-11)
