"""The uncertainties bound the pointwise errors relative to the norm of the latent function (Cor. 1)."""

import numpy as np
import pytest

from helpers import KERNELS, PAIRS, POLICIES, exact, make_data
from itergp import MaxActions, Prior, condition


@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_errors_relative_to_the_norm_stay_below_the_uncertainty(kernel, policy):
    """h = sum_j a_j k^sigma(., p_j) over training, test and other points; also where the actions depend on
    h(X)."""
    noise, prior, rng = 0.05, Prior(KERNELS[kernel]), np.random.default_rng(11)
    data = make_data(25)
    points = np.concatenate([data.X, data.X_new, rng.uniform(-1, 1, (5, 2))])
    K_sigma = np.asarray(prior.kernel(points, points)) + noise * np.eye(len(points))
    a = rng.standard_normal(len(points))
    h, norm = K_sigma @ a, np.sqrt(a @ K_sigma @ a)
    y, h_new = h[:25], h[25 : 25 + len(data.X_new)]
    posterior = condition(prior, data.X, y, noise, POLICIES[policy](), MaxActions(8))
    oracle = exact(prior, data.X, y, noise, data.X_new)
    mean, parts = posterior.mean(data.X_new), posterior.decompose(data.X_new)
    assert (np.abs(h_new - mean) / norm <= posterior.worst_case_error(data.X_new) + 1e-12).all()
    assert (np.abs(oracle.mean - mean) / norm <= np.sqrt(parts.computational) + 1e-9).all()
    np.testing.assert_allclose(parts.computational, posterior.var(data.X_new) - oracle.var, atol=1e-10)


def test_a_smaller_variance_would_not_bound_the_error():
    """The bound has no slack to give away: near the maximiser, 99 % of it is exceeded."""
    data, prior = make_data(25), Prior(KERNELS["matern32"])
    x = data.X_new[:1]
    points = np.concatenate([data.X, x])
    K_sigma = np.asarray(prior.kernel(points, points)) + 0.05 * np.eye(26)
    first = condition(prior, data.X, data.y, 0.05, POLICIES["unit-pivoted"](), MaxActions(8))
    a = np.append(-first.state.precision() @ K_sigma[:-1, -1], 1.0)
    h = K_sigma @ (a + 1e-2 * np.random.default_rng(0).standard_normal(26))
    norm = np.sqrt(h @ np.linalg.solve(K_sigma, h))
    posterior = condition(prior, data.X, h[:-1], 0.05, POLICIES["unit-pivoted"](), MaxActions(8))
    ratio = abs(h[-1] - posterior.mean(x)[0]) / norm / posterior.worst_case_error(x)[0]
    assert 0.99 < ratio <= 1.0 + 1e-12
