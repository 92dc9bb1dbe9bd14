"""The path holds the posterior after every prefix of the actions."""

import numpy as np
import pytest

from helpers import KERNELS, PAIRS, POLICIES, combined, make_data, row_noise, run
from itergp import MaxActions, Prior, condition


@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_each_entry_is_the_batch_formula_of_its_prefix(kernel, policy):
    r = run(kernel, policy, noise=row_noise(30))
    path = r.posterior.path(r.data.X_new)
    np.testing.assert_array_equal(path.ranks, np.arange(r.posterior.rank + 1))
    np.testing.assert_array_equal(path.mean[0], r.prior.mean(r.data.X_new))
    np.testing.assert_array_equal(path.var[0], r.prior.var(r.data.X_new))
    for i in path.ranks[1:]:
        _, mean, cov = combined(r.oracle, r.prior, r.Q[:, :i], r.data.X_new)
        np.testing.assert_allclose(path.mean[i], mean, atol=1e-10)
        np.testing.assert_allclose(path.var[i], np.diag(cov), atol=1e-10)
    assert (np.diff(path.var, axis=0) <= 0).all()  # more computation only lowers it, to the bit


@pytest.mark.parametrize("policy", POLICIES)
def test_each_entry_is_the_shorter_run(policy):
    """Also inside a block: a budget that cuts it gives the same posterior as the prefix."""
    r = run("matern32", policy, actions=9)
    path = r.posterior.path(r.data.X_new)
    for i in range(r.posterior.rank + 1):
        short = run("matern32", policy, actions=i).posterior
        assert short.rank == i
        np.testing.assert_allclose(short.mean(r.data.X_new), path.mean[i], atol=1e-12)
        np.testing.assert_allclose(short.var(r.data.X_new), path.var[i], atol=1e-12)


def test_the_last_entry_is_the_posterior_and_some_ranks_may_be_asked_for():
    data, prior = make_data(25, targets=2), Prior(KERNELS["rbf"])
    posterior = condition(prior, data.X, data.y, 0.05, POLICIES["cg"](), MaxActions(8))
    path, some = posterior.path(data.X_new), posterior.path(data.X_new, [8, 2, 2])
    np.testing.assert_allclose(path.mean[8], posterior.mean(data.X_new), atol=1e-12)
    np.testing.assert_array_equal(path.var[8], posterior.var(data.X_new))
    np.testing.assert_array_equal(some.ranks, [8, 2, 2])
    np.testing.assert_array_equal(some.mean, path.mean[[8, 2, 2]])
    np.testing.assert_array_equal(some.var, path.var[[8, 2, 2]])
