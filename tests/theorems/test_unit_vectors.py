"""Unit-vector actions give the exact GP on the rows they name."""

import numpy as np
import pytest

from helpers import KERNELS, dense, exact, make_data, row_noise
from itergp import LinearMean, MaxActions, Prior, UnitVector, condition

n = 30
ORDERS = {
    "sequential": lambda: UnitVector(block_size=4),
    "random": lambda: UnitVector("random", block_size=3),
    "pivoted": lambda: UnitVector("pivoted", block_size=2),
    "listed": lambda: UnitVector(order=[7, 3, 22, 11, 0, 29, 15, 8, 19, 4], block_size=10),
}


@pytest.mark.parametrize("noise", [0.05, row_noise(n)], ids=["scalar", "per-row"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_posterior_is_the_exact_gp_on_the_subset(kernel, order, noise):
    data, prior = make_data(n), Prior(KERNELS[kernel], LinearMean([0.4, 0.1]))
    posterior = condition(prior, data.X, data.y, noise, ORDERS[order](), MaxActions(10))
    rows = dense(posterior.actions).argmax(axis=0)
    assert len(set(rows)) == 10
    N = np.broadcast_to(noise, n)
    oracle = exact(prior, data.X[rows], data.y[rows], N[rows], data.X_new)
    np.testing.assert_allclose(posterior.mean(data.X_new), oracle.mean, atol=1e-10)
    np.testing.assert_allclose(posterior.cov(data.X_new), oracle.cov, atol=1e-10)
    np.testing.assert_allclose(
        posterior.state.representer_weights[rows, 0], oracle.v, atol=1e-10 * np.abs(oracle.v).max()
    )
    assert not np.delete(posterior.state.representer_weights, rows, axis=0).any()
    assert posterior.state.projected_log_likelihood == pytest.approx(oracle.log_likelihood, rel=1e-10)


def test_other_rows_play_no_part():
    data, prior = make_data(n), Prior(KERNELS["matern32"])
    policy = ORDERS["listed"]()
    y = data.y.copy()
    y[[1, 2, 5]] += 1e6
    one, two = (condition(prior, data.X, t, 0.05, policy, MaxActions(10)) for t in (data.y, y))
    np.testing.assert_array_equal(one.mean(data.X_new), two.mean(data.X_new))
    assert one.state.progress.passes == 0  # and no pass over K
