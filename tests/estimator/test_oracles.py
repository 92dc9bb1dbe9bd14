"""The estimator beside two oracles: scikit-learn's exact GP, and this library's own `condition` on data
scaled by hand."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

import itergp
from helpers import make_data
from itergp import IterGPRegressor, Matern32, MaxActions, Prior, Schedule, Status, condition

NOISE = 0.05

# Adding a scikit-learn kernel: one row, and its number of features.
SKLEARN = {
    "rbf": (RBF(0.7), 2),
    "rbf-ard": (RBF([0.7, 1.5]), 2),
    "matern12": (Matern(0.6, nu=0.5), 2),
    "matern32": (2.0 * Matern([0.6, 0.9], nu=1.5), 2),
    "matern52": (Matern(0.6, nu=2.5), 2),
    "matern-inf": (Matern(0.6, nu=np.inf), 2),
    "rational-quadratic": (RationalQuadratic(0.8, alpha=0.6), 2),
    "exp-sine-squared": (ExpSineSquared(0.8, periodicity=1.3), 1),
    "dot-product": (DotProduct(0.5), 2),
    "dot-product-homogeneous": (DotProduct(0.0) + RBF(0.5), 2),
    "constant": (ConstantKernel(0.4) + 0.7 * RBF(0.5), 2),
    "product": (RBF(0.5) * Matern(1.0, nu=1.5) * 1.7, 2),
    "product-of-sums": ((RBF(0.5) + ConstantKernel(0.3)) * (DotProduct(0.4) + 2.0), 2),
    "sum": (0.5 * RBF(0.3) + 1.5 * Matern(2.0, nu=0.5) + RationalQuadratic(), 2),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_at_fixed_hyperparameters_it_is_scikit_learns_process(name):
    kernel, d = SKLEARN[name]
    data = make_data(50, d)
    oracle = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(data.X, data.y)
    model = IterGPRegressor(kernel, mean="zero", noise=NOISE, learn=False, normalize=False).fit(
        data.X, data.y
    )
    assert model.status_ is Status.EXACT
    mean, std = oracle.predict(data.X_new, return_std=True)
    latent = model.predict(data.X_new, return_std=True, include_noise=False)
    np.testing.assert_allclose(latent[0], mean, atol=1e-8)
    np.testing.assert_allclose(latent[1], std, atol=1e-7)
    _, covariance = oracle.predict(data.X_new, return_cov=True)
    np.testing.assert_allclose(
        model.predict(data.X_new, return_cov=True, include_noise=False)[1], covariance, atol=1e-8
    )
    observed = model.predict(data.X_new, return_std=True)[1]
    np.testing.assert_allclose(observed**2, std**2 + NOISE, atol=1e-8)


@pytest.mark.parametrize(
    "kernel", [RBF(0.5) + WhiteKernel(0.2), 2.0 * (RBF(0.5) + WhiteKernel(0.1)) + WhiteKernel(0.03)]
)
def test_white_noise_in_the_kernel_is_the_noise(kernel):
    """scikit-learn's own predictions then include it, as ours do by default."""
    data = make_data(50)
    oracle = GaussianProcessRegressor(kernel, alpha=1e-12, optimizer=None).fit(data.X, data.y)
    model = IterGPRegressor(kernel, mean="zero", learn=False, normalize=False).fit(data.X, data.y)
    mean, std = oracle.predict(data.X_new, return_std=True)
    got = model.predict(data.X_new, return_std=True)
    np.testing.assert_allclose(got[0], mean, atol=1e-8)
    np.testing.assert_allclose(got[1], std, atol=1e-8)
    np.testing.assert_allclose(
        model.predict(data.X_new, return_cov=True)[1],
        oracle.predict(data.X_new, return_cov=True)[1],
        atol=1e-8,
    )


# Units: data far from standard, so that whatever is not undone shows.

X_UNITS, Y_UNITS = np.array([1e3, 1e-4]), 250.0


def scaled_by_hand(targets=None):
    data = make_data(50, targets=targets)
    X, y, X_new = 7.0 + data.X * X_UNITS, 1e4 + Y_UNITS * data.y, 7.0 + data.X_new * X_UNITS
    x_mean, x_std, y_mean, y_std = X.mean(axis=0), X.std(axis=0), y.mean(axis=0), y.std(axis=0)
    kernel = 1.3 * Matern32([0.8, 1.1])
    posterior = condition(
        Prior(kernel),
        (X - x_mean) / x_std,
        (y - y_mean) / y_std,
        NOISE,
        itergp.ConjugateGradient(),
        MaxActions(5),
    )
    own = 1.3 * Matern32(np.array([0.8, 1.1]) * x_std)  # the same kernel, in the units of X
    model = IterGPRegressor(own, noise=NOISE, learn=False, policy="cg", budget="5 actions", neighbours=7)
    return model.fit(X, y), posterior, X_new, (X_new - x_mean) / x_std, y_mean, y_std


def test_scaling_is_undone_in_mean_and_standard_deviation():
    model, posterior, X_new, Z, y_mean, y_std = scaled_by_hand()
    local = posterior.local(7)
    mean, std = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, y_mean + y_std * local.mean(Z), rtol=1e-10)
    np.testing.assert_allclose(std, y_std * np.sqrt(local.var(Z) + NOISE), rtol=1e-8)
    np.testing.assert_allclose(model.predict(X_new), mean, rtol=1e-12)
    _, latent = model.predict(X_new, return_std=True, include_noise=False)
    np.testing.assert_allclose(latent, y_std * np.sqrt(local.var(Z)), rtol=1e-8)


def test_scaling_is_undone_in_covariances_and_samples():
    model, posterior, X_new, Z, y_mean, y_std = scaled_by_hand()
    local = posterior.local(7)
    mean, covariance = model.predict(X_new, return_cov=True)
    np.testing.assert_allclose(mean, y_mean + y_std * local.mean(Z), rtol=1e-10)
    np.testing.assert_allclose(
        covariance, y_std**2 * (local.cov(Z) + NOISE * np.eye(12)), rtol=1e-8, atol=1e-6
    )
    for include_noise, extra in ((False, 0.0), (True, NOISE)):
        draws = model.sample_y(X_new, 4000, random_state=1, include_noise=include_noise)
        assert draws.shape == (12, 4000)
        expected = y_std**2 * (local.cov(Z) + extra * np.eye(12))
        error = np.sqrt(np.diag(expected) / 4000)
        assert (np.abs(draws.mean(axis=1) - mean) < 4.5 * error).all()
        np.testing.assert_allclose(np.cov(draws), expected, atol=6 * expected.max() / np.sqrt(4000))
    np.testing.assert_array_equal(
        model.sample_y(X_new, 2, random_state=5), model.sample_y(X_new, 2, random_state=5)
    )


def test_scaling_is_undone_in_decompositions_certificates_and_intervals():
    model, posterior, X_new, Z, _, y_std = scaled_by_hand()
    parts, expected = model.decompose(X_new), posterior.local(7).decompose(Z)
    for name in ("mathematical", "computational", "combined", "computational_lower", "computational_upper"):
        np.testing.assert_allclose(
            getattr(parts, name), y_std**2 * getattr(expected, name), rtol=1e-6, err_msg=name
        )
    np.testing.assert_allclose(parts.noise, y_std**2 * NOISE)
    assert parts.exact
    certificate, bounds = model.certify(X_new), posterior.local(7).certify(Z)
    np.testing.assert_allclose(certificate.variance_lower, y_std**2 * bounds.variance_lower, rtol=1e-6)
    np.testing.assert_allclose(certificate.variance_upper, y_std**2 * bounds.variance_upper, rtol=1e-6)
    np.testing.assert_allclose(certificate.mean_error, y_std * bounds.mean_error, rtol=1e-6)
    mean, std = model.predict(X_new, return_std=True)
    lower, upper = model.interval(X_new, 0.8)
    np.testing.assert_allclose(lower, norm.ppf(0.1, mean, std))
    np.testing.assert_allclose(upper, norm.ppf(0.9, mean, std))


@pytest.mark.parametrize("neighbours", ["auto", 0, 5])
@pytest.mark.parametrize("budget", ["6 actions", None])
def test_parts_and_noise_add_up_to_the_squared_standard_deviation(neighbours, budget):
    data = make_data(90)
    model = IterGPRegressor(noise=NOISE, learn=False, neighbours=neighbours, budget=budget).fit(
        data.X, 30 * data.y
    )
    parts, (_, std) = model.decompose(data.X_new), model.predict(data.X_new, return_std=True)
    np.testing.assert_allclose(parts.mathematical + parts.computational + parts.noise, std**2, rtol=1e-9)
    assert (parts.computational >= 0).all()
    assert (parts.computational.max() > 1e-6) == (model.status_ is not Status.EXACT)


def test_each_of_several_targets_has_its_own_units():
    model, posterior, X_new, Z, y_mean, y_std = scaled_by_hand(targets=3)
    local = posterior.local(7)
    mean, std = model.predict(X_new, return_std=True)
    assert mean.shape == std.shape == (12, 3)
    np.testing.assert_allclose(mean, y_mean + y_std * local.mean(Z), rtol=1e-10)
    np.testing.assert_allclose(std, np.outer(np.sqrt(local.var(Z) + NOISE), y_std), rtol=1e-8)
    covariance = model.predict(X_new, return_cov=True)[1]
    assert covariance.shape == (12, 12, 3)
    np.testing.assert_allclose(
        covariance[..., 1], y_std[1] ** 2 * (local.cov(Z) + NOISE * np.eye(12)), rtol=1e-7, atol=1e-6
    )
    assert model.sample_y(X_new, 5).shape == (12, 3, 5)
    parts = model.decompose(X_new)
    np.testing.assert_allclose(parts.combined + parts.noise, std**2, rtol=1e-9)
    assert model.certify(X_new).mean_error.shape == (12, 3)
    assert model.interval(X_new)[0].shape == (12, 3)


def test_targets_together_are_targets_one_by_one():
    data = make_data(50, targets=2)
    together = IterGPRegressor(noise=NOISE, learn=False).fit(data.X, data.y)
    for j in (0, 1):
        alone = IterGPRegressor(noise=NOISE, learn=False).fit(data.X, data.y[:, j])
        mean, std = alone.predict(data.X_new, return_std=True)
        np.testing.assert_allclose(together.predict(data.X_new)[:, j], mean, atol=1e-10)
        np.testing.assert_allclose(together.predict(data.X_new, return_std=True)[1][:, j], std, atol=1e-10)


def test_constant_columns_and_constant_targets_are_no_trouble():
    data = make_data(40)
    with_constant = np.column_stack([data.X, np.full(40, 1e9)])
    model = IterGPRegressor(noise=NOISE, learn=False).fit(with_constant, data.y)
    assert np.isfinite(model.predict(np.column_stack([data.X_new, np.full(12, 1e9)]), return_std=True)).all()
    flat = IterGPRegressor(noise=NOISE, learn=False).fit(data.X, np.full(40, 1e9 + 0.1))
    mean, std = flat.predict(data.X_new, return_std=True)
    np.testing.assert_allclose(mean, 1e9 + 0.1, rtol=1e-15)
    assert np.isfinite(std).all()


@pytest.mark.parametrize("mean", ["constant", "zero", "linear", itergp.LinearMean([0.5, 0.5], 0.2)], ids=str)
def test_means_far_from_the_data(mean):
    """Far away, what is left is the prior mean: in units of y."""
    data = make_data(60)
    y = 5.0 + 3.0 * data.X[:, 0] + data.y
    model = IterGPRegressor(mean=mean, noise=NOISE, learn=False, normalize=False).fit(data.X, y)
    far = np.array([[300.0, 0.0], [0.0, -300.0]])
    plane = np.linalg.lstsq(np.column_stack([data.X, np.ones(60)]), y, rcond=None)[0]
    expected = {
        "constant": np.full(2, y.mean()),
        "zero": np.zeros(2),
        "linear": far @ plane[:2] + plane[2],
    }.get(str(mean), far @ [0.5, 0.5] + 0.2)
    np.testing.assert_allclose(model.predict(far), expected, atol=1e-8)


def test_the_kernel_by_name_has_a_lengthscale_for_each_feature():
    data = make_data(30, d=3)
    for name in ("rbf", "matern12", "matern32", "matern52", "rational-quadratic", "linear"):
        model = IterGPRegressor(name, noise=0.1, learn=False).fit(data.X, data.y)
        assert model.kernel_.kernel.lengthscale.shape == (3,)


@pytest.mark.parametrize(
    "name", ["auto", "cg", "cholesky", "pseudo-input", "eigenvector", "random", "block-krylov"]
)
def test_every_policy_by_name_lowers_the_variance_towards_the_exact_one(name):
    data = make_data(60)
    exact = (
        IterGPRegressor(noise=NOISE, learn=False).fit(data.X, data.y).predict(data.X_new, return_std=True)[1]
    )
    before = np.inf
    for budget in ("0 actions", "5 actions", "40 actions", "60 actions"):
        model = IterGPRegressor(noise=NOISE, learn=False, policy=name, budget=budget, neighbours=0).fit(
            data.X, data.y
        )
        std = model.predict(data.X_new, return_std=True)[1]
        assert (std <= before + 1e-9).all()
        assert (std >= exact - 1e-9).all()
        before = std
    if name in ("auto", "cholesky"):
        assert model.status_ is Status.EXACT
        np.testing.assert_allclose(std, exact, atol=1e-7)


def test_policies_may_be_objects():
    data, policy = make_data(40), Schedule((itergp.PseudoInput(4), 4), (itergp.ConjugateGradient(), None))
    model = IterGPRegressor(noise=NOISE, learn=False, policy=policy, budget=MaxActions(6)).fit(data.X, data.y)
    assert model.posterior_.policy is policy
    assert model.posterior_.rank == 6
