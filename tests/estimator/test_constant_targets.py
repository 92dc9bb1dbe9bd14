"""A target from which nothing can be learned takes no part in learning, and has the noise that it has alone."""

import numpy as np
import pytest

from itergp import IterGPRegressor
from itergp.fitting import START_NOISE
from itergp.prior.kernels import parameters


def rows(n, seed, low=0.0, high=1.0):
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(low, high, (n, 1))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(n)


AT = np.linspace(0, 1, 60)[:, None]


def assert_same_kernel(found, expected):
    """To rounding: the mean of a column is summed in another order than that of a vector."""
    for path, value in parameters(expected.kernel_).items():
        np.testing.assert_allclose(parameters(found.kernel_)[path], value, rtol=1e-9)


@pytest.mark.parametrize("constants", [(7.0,), (0.1,), (7.0, 1.0, 0.0)], ids=str)
@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"noise": 0.02}, {"mean": "linear"}], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_a_target_beside_constant_ones_is_fitted_as_it_is_alone(constants, options, seed):
    X, y = rows(150, seed)
    alone = IterGPRegressor(**options).fit(X, y)
    model = IterGPRegressor(**options).fit(X, np.stack([*(np.full(150, c) for c in constants), y], axis=1))
    assert_same_kernel(model, alone)
    assert model.learning_.ended is alone.learning_.ended
    mean, std = model.predict(AT, return_std=True)
    expected = alone.predict(AT, return_std=True)
    np.testing.assert_allclose(mean[:, -1], expected[0], atol=1e-9)
    np.testing.assert_allclose(std[:, -1], expected[1], rtol=1e-9)
    np.testing.assert_allclose(mean[:, :-1], np.broadcast_to(constants, (60, len(constants))), atol=1e-9)
    if "noise" not in options:
        np.testing.assert_allclose(model.noise_, [*[START_NOISE] * len(constants), alone.noise_], rtol=1e-9)


@pytest.mark.parametrize("noise", ["learn", 0.05, [0.1, 0.05, 0.02]], ids=str)
@pytest.mark.parametrize("merge", [True, False])
def test_two_targets_beside_a_constant_one_are_fitted_as_they_are_without_it(noise, merge):
    """Each has its own deviations where rows are merged."""
    X, y = rows(120, 0)
    X, y = np.concatenate([X, X[:40]]), np.concatenate([y, rows(40, 1)[1]])
    both = np.stack([y, np.cos(5 * X[:, 0]) + 0.3 * rows(160, 2)[1]], axis=1)
    Y = np.stack([both[:, 0], np.full(160, -3.0), both[:, 1]], axis=1)
    model = IterGPRegressor(noise=noise, merge_duplicates=merge).fit(X, Y)
    without = IterGPRegressor(noise=noise[::2] if isinstance(noise, list) else noise, merge_duplicates=merge).fit(X, both)
    assert_same_kernel(model, without)
    if noise == "learn":
        np.testing.assert_allclose(np.asarray(model.noise_)[[0, 2]], without.noise_, rtol=1e-9)
    np.testing.assert_allclose(model.predict(AT)[:, [0, 2]], without.predict(AT), atol=1e-9)
