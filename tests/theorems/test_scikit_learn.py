"""At rank n the posterior is scikit-learn's exact GP, for every kernel that scikit-learn has."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as sk

from helpers import POLICIES, make_data
from itergp import (
    RBF,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    MaxActions,
    Periodic,
    Prior,
    RationalQuadratic,
    Status,
    condition,
)

# ours, theirs, number of features (their periodic kernel wraps the distance, ours each feature: the same for
# one)
KERNELS = {
    "rbf": (1.3 * RBF(0.5), 1.3 * sk.RBF(0.5), 2),
    "rbf-ard": (RBF([0.5, 0.8]), sk.RBF([0.5, 0.8]), 2),
    "matern12": (Matern12([0.7, 0.4]), sk.Matern([0.7, 0.4], nu=0.5), 2),
    "matern32": (2.0 * Matern32(0.6), 2.0 * sk.Matern(0.6, nu=1.5), 2),
    "matern52": (Matern52([0.5, 0.9]), sk.Matern([0.5, 0.9], nu=2.5), 2),
    "rational-quadratic": (
        0.8 * RationalQuadratic(0.5, alpha=1.5),
        0.8 * sk.RationalQuadratic(0.5, alpha=1.5),
        2,
    ),
    "periodic": (Periodic(lengthscale=0.9, period=1.7), sk.ExpSineSquared(0.9, 1.7), 1),
    "linear-plus-constant": (
        Linear(1.2) + 0.5 * Constant(1.0),
        sk.DotProduct(np.sqrt(0.5) * 1.2) * (1 / 1.44),
        2,
    ),
    "constant-plus-rbf": (Constant(0.7) + RBF(0.4), sk.ConstantKernel(0.7) + sk.RBF(0.4), 2),
    "sum": (Matern32(0.5) + 0.5 * RBF(1.5), sk.Matern(0.5, nu=1.5) + 0.5 * sk.RBF(1.5), 2),
    "product": (Matern52(0.8) * RBF(1.1), sk.Matern(0.8, nu=2.5) * sk.RBF(1.1), 2),
}
n, NOISE = 40, 0.05


def theirs(kernel, data, noise=NOISE):
    return GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(data.X, data.y)


@pytest.mark.parametrize("name", KERNELS)
def test_the_full_run_is_the_exact_gp_of_scikit_learn(name):
    kernel, their_kernel, d = KERNELS[name]
    data = make_data(n, d=d)
    posterior = condition(Prior(kernel), data.X, data.y, NOISE)
    assert posterior.status is Status.EXACT
    model = theirs(their_kernel, data)
    mean, cov = model.predict(data.X_new, return_cov=True)
    np.testing.assert_allclose(posterior.mean(data.X_new), mean, atol=1e-8 * np.abs(mean).max())
    np.testing.assert_allclose(posterior.cov(data.X_new), cov, atol=1e-8 * np.abs(cov).max())
    np.testing.assert_allclose(posterior.var(data.X_new), np.diag(cov), atol=1e-8 * np.abs(cov).max())
    likelihood = model.log_marginal_likelihood_value_
    assert posterior.state.elbo == pytest.approx(likelihood, rel=1e-8)
    assert posterior.state.projected_log_likelihood == pytest.approx(likelihood, rel=1e-8)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in ("unit-listed", "sparse-block")])
def test_so_does_every_policy_that_goes_to_the_end(policy):
    kernel, their_kernel, _ = KERNELS["matern32"]
    data, noise = make_data(n), np.linspace(0.03, 0.2, n)
    posterior = condition(Prior(kernel), data.X, data.y, noise, POLICIES[policy](), MaxActions(n))
    assert posterior.status is Status.EXACT
    mean, cov = theirs(their_kernel, data, noise).predict(data.X_new, return_cov=True)
    np.testing.assert_allclose(posterior.mean(data.X_new), mean, atol=1e-8)
    np.testing.assert_allclose(posterior.cov(data.X_new), cov, atol=1e-8)


def test_several_targets_agree_too():
    kernel, their_kernel, _ = KERNELS["matern52"]
    data = make_data(n, targets=3)
    posterior = condition(Prior(kernel), data.X, data.y, NOISE)
    np.testing.assert_allclose(
        posterior.mean(data.X_new), theirs(their_kernel, data).predict(data.X_new), atol=1e-8
    )
