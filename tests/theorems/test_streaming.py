"""One unit-vector action for each point that arrives is the exact GP at every step (Remark S2)."""

import itertools

import numpy as np
import pytest

from helpers import KERNELS, exact, make_data, row_noise
from itergp import LinearMean, Prior, Status, condition


@pytest.mark.parametrize("noise", [0.05, row_noise(18)], ids=["scalar", "per-row"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_points_one_at_a_time_give_the_exact_gp_at_every_step(kernel, noise):
    data, prior = make_data(18), Prior(KERNELS[kernel], LinearMean([0.4, 0.1]))
    N = np.broadcast_to(noise, 18)
    at = lambda i: float(N[0]) if np.ndim(noise) == 0 else N[i : i + 1]  # noqa: E731
    posterior = condition(prior, data.X[:1], data.y[:1], at(0))
    for i in range(1, 18):
        posterior = posterior.extend(data.X[i : i + 1], data.y[i : i + 1], at(i) if np.ndim(noise) else None)
        oracle = exact(prior, data.X[: i + 1], data.y[: i + 1], N[: i + 1], data.X_new)
        assert posterior.rank == i + 1
        assert posterior.status is Status.EXACT
        np.testing.assert_allclose(posterior.mean(data.X_new), oracle.mean, atol=1e-10)
        np.testing.assert_allclose(posterior.cov(data.X_new), oracle.cov, atol=1e-10)
        assert posterior.state.elbo == pytest.approx(oracle.log_likelihood, rel=1e-9)


@pytest.mark.parametrize("sizes", [(5, 1, 12), (1, 9, 8), (3, 3, 3, 9)])
def test_points_in_batches_give_the_exact_gp_too(sizes):
    data, prior = make_data(18), Prior(KERNELS["matern32"])
    ends = np.cumsum(sizes)
    posterior = condition(prior, data.X[: ends[0]], data.y[: ends[0]], 0.05)
    for start, end in itertools.pairwise(ends):
        posterior = posterior.extend(data.X[start:end], data.y[start:end])
        oracle = exact(prior, data.X[:end], data.y[:end], 0.05, data.X_new)
        np.testing.assert_allclose(posterior.mean(data.X_new), oracle.mean, atol=1e-10)
        np.testing.assert_allclose(posterior.var(data.X_new), oracle.var, atol=1e-10)
