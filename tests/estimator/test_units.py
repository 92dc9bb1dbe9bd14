"""A kernel that is given is in the units of X."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as skl

from itergp import RBF, Constant, IterGPRegressor, LearningWarning, Linear, Matern32, Periodic
from itergp.fitted.relevance import relevances


def seasons(n=120, seed=0):
    """Twelve years, counted from 1990, of a season of one year."""
    rng = np.random.default_rng(seed)
    years = np.sort(rng.uniform(1990.0, 2002.0, n))
    return years[:, None], 3.0 * np.sin(2 * np.pi * years) + 0.05 * rng.normal(size=n) + 70.0


def test_a_period_of_one_year_is_a_year():
    """Known from eleven years, the twelfth is predicted to the noise; a wrong period would miss by the whole
    season."""
    X, y = seasons()
    kernel = 1.0 * Periodic(lengthscale=1.0, period=1.0)
    model = IterGPRegressor(kernel, noise=1e-3, learn=False).fit(X[:110], y[:110])
    assert np.abs(model.predict(X[110:]) - y[110:]).max() < 0.3
    assert model.kernel_.kernel.period == 1.0


def test_with_scaled_targets_the_numbers_are_those_of_scikit_learn():
    """normalize_y there, normalize here: the same kernel has the same meaning, for several features."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (80, 2)) * [500.0, 0.02] + [1e4, -3.0]
    y = 20 * np.sin(X[:, 0] / 100) + 400 * X[:, 1] + rng.normal(size=80)
    kernel = skl.ConstantKernel(1.3) * skl.Matern([80.0, 0.01], nu=1.5)
    theirs = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None, normalize_y=True).fit(X, y)
    ours = IterGPRegressor(kernel, noise=0.01, learn=False).fit(X, y)
    at = rng.uniform(0, 1, (30, 2)) * [500.0, 0.02] + [1e4, -3.0]
    mean, std = theirs.predict(at, return_std=True)
    our_mean, our_std = ours.predict(at, return_std=True, include_noise=False)
    np.testing.assert_allclose(our_mean, mean, rtol=1e-7)
    np.testing.assert_allclose(our_std, std, rtol=1e-6)


@pytest.mark.parametrize("unit", [1.0, 1000.0, 1e-3])
def test_learning_is_the_same_in_any_unit_of_the_inputs(unit):
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 10, (60, 2))
    y = np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.05 * rng.normal(size=60)

    def fitted(unit):
        return IterGPRegressor(1.0 * Matern32([2.0 * unit, 5.0 * unit])).fit(unit * X, y)

    one, other = fitted(1.0), fitted(unit)
    np.testing.assert_allclose(
        other.kernel_.kernel.lengthscale, unit * one.kernel_.kernel.lengthscale, rtol=1e-3
    )
    np.testing.assert_allclose(other.predict(unit * X), one.predict(X), atol=1e-4)
    shown = [row.value for row in relevances_of(other)], [row.feature for row in relevances_of(other)]
    np.testing.assert_allclose(shown[0], [row.value for row in relevances_of(one)], rtol=1e-3)


def relevances_of(model):
    from itergp.fitted.relevance import relevances

    return relevances(model.fit_)


def test_relevance_does_not_depend_on_the_unit_of_one_feature():
    """A feature in metres or in millimetres is as relevant."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 2))
    y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    fits = [
        IterGPRegressor(1.0 * RBF([1.0, 9.0 * unit]), noise=0.01, learn=False).fit(X * [1.0, unit], y)
        for unit in (1.0, 1000.0)
    ]
    one, other = ({row.feature: row.value for row in relevances_of(fit)} for fit in fits)
    np.testing.assert_allclose([other[0], other[1]], [one[0], one[1]], rtol=1e-9)
    assert one[0] == 1.0


def test_partly_fixed_scikit_learn_kernels_keep_what_is_fixed():
    """As in the Mauna Loa example of scikit-learn: the period stays one year, the rest is learned."""
    X, y = seasons(80)
    season = skl.ExpSineSquared(1.0, periodicity=1.0, periodicity_bounds="fixed")
    kernel = 4.0 * skl.RBF(100.0) * season + 0.5 * skl.RationalQuadratic() + skl.WhiteKernel(0.1)
    model = IterGPRegressor(kernel).fit(X[:70], y[:70])
    learned = model.kernel_.left.kernel
    assert learned.right.period == 1.0
    assert learned.right.lengthscale != 1.0
    assert np.abs(model.predict(X[70:]) - y[70:]).max() < 0.5


@pytest.mark.parametrize(
    "kernel", [1.0 * RBF(0.5), RBF([1.0, 1.0]), RBF(1.0).on([1]), Linear(1e-6) * RBF(1e4)]
)
def test_a_lengthscale_in_another_unit_gives_a_warning_that_names_it(kernel):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2)) * [1.0, 1e5]
    with pytest.warns(LearningWarning, match=r"lengthscale of \w+ is .*units of X") as caught:
        IterGPRegressor(kernel, noise=0.1, learn=False).fit(X, X[:, 0])
    assert caught[0].filename == __file__


def test_lengthscales_of_the_size_of_the_data_and_periods_of_a_season_are_no_reason_to_warn():
    X, y = seasons()
    with warnings.catch_warnings():
        warnings.simplefilter("error", LearningWarning)
        for kernel in (RBF(50.0) + 0.1 * Periodic(1.0, 1.0), "matern32", RBF(0.02)):
            IterGPRegressor(kernel, noise=0.01, learn=False).fit(X, y)
        IterGPRegressor(RBF(1e-4), noise=0.01, learn=False, normalize=False).fit(X, y)


def test_a_plane_is_fitted_whatever_the_units():
    """A feature in nanometres counts beside one in hertz: the mean is the same plane as after
    standardising."""
    rng = np.random.default_rng(5)
    Z, at, unit = rng.normal(size=(100, 2)), rng.normal(size=(20, 2)), np.array([5e-7, 1e9])
    y = 4 + 3 * Z[:, 0] - 2 * Z[:, 1] + 0.1 * rng.normal(size=100)
    how = {"mean": "linear", "noise": 0.01, "learn": False}
    plain = IterGPRegressor(0.05 * Matern32([0.1, 0.1]), **how).fit(Z, y)
    scaled = IterGPRegressor(0.05 * Matern32(0.1 * unit), **how).fit(Z * unit, y)
    np.testing.assert_allclose(scaled.predict(at * unit), plain.predict(at), rtol=1e-9)


def test_blocks_do_not_depend_on_units():
    """groups="blocks" are blocks in all features, not strips along the one with the smallest unit."""
    rng = np.random.default_rng(6)
    Z, unit = rng.uniform(-2, 2, (500, 2)), 2.0 ** np.array([0, 20])
    y = np.sin(Z[:, 0]) + Z[:, 1] + 0.1 * rng.normal(size=500)
    found = [
        IterGPRegressor(1.0 * Matern32(u), noise=0.01, learn=False)
        .fit(Z * u, y, groups="blocks")
        .fit_.observed
        for u in (np.ones(2), unit)
    ]
    np.testing.assert_array_equal(found[0].groups, found[1].groups)


def test_what_is_learned_beside_a_constant_does_not_depend_on_units():
    """Nearest rows are those of the other parts: a constant has no metric."""
    rng = np.random.default_rng(7)
    Z, unit = rng.uniform(-2, 2, (300, 2)), np.array([1.0, 1e6])
    y = np.sin(2 * Z[:, 0]) * np.cos(1.5 * Z[:, 1]) + 0.1 * rng.normal(size=300)
    found = [
        IterGPRegressor(1.0 * Matern32(u) + Constant(1.0), learn="neighbours").fit(Z * u, y).kernel_
        for u in (np.ones(2), unit)
    ]
    plain, scaled = (kernel.left.kernel.lengthscale for kernel in found)
    np.testing.assert_allclose(scaled / unit, plain, rtol=1e-4)


def test_a_constant_feature_has_no_unit_to_doubt_and_no_relevance():
    """Whatever its lengthscale is, no warning compares it with a spread, and it is the least relevant."""
    rng = np.random.default_rng(8)
    X = np.column_stack([1e-12 * rng.normal(size=60), np.full(60, 3e-10)])
    model = IterGPRegressor(1.0 * Matern32([1e-12, 1e-14]), noise=0.01, learn=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, np.sin(2e12 * X[:, 0]))
    assert [(one.feature, one.value) for one in relevances(model.fit_)] == [(0, 1.0), (1, 0.0)]
