"""How much a feature matters is how much the function changes with it."""

import numpy as np

from itergp import RBF, IterGPRegressor, Linear
from itergp.fitted.relevance import relevances


def fitted(kernel, X, y):
    return IterGPRegressor(kernel=kernel, noise=0.01, learn=False, normalize=False).fit(X, y).fit_


def test_with_a_linear_part_the_feature_that_moves_the_function_is_the_most_relevant():
    """The correlation of 1 + x and 1 is that of a constant, however far x moves: it says nothing of x.

    The oracle is the standard deviation of f(x + e) - f(x) over draws of the prior.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2)) + np.array([40.0, 0.0])
    kernel = 0.05 * RBF([3.0, 1.0]) + 2.0 * Linear(1.0)
    found = {one.feature: one.value for one in relevances(fitted(kernel, X, X[:, 0]))}
    points = np.median(X, axis=0) + np.concatenate([np.zeros((1, 2)), np.diag(X.std(axis=0))])
    K = np.asarray(kernel(points, points), dtype=np.float64)
    draws = np.linalg.cholesky(K + 1e-9 * np.eye(3)) @ rng.standard_normal((3, 20_000))
    change = np.var(draws[1:] - draws[0], axis=1)
    np.testing.assert_allclose([found[0], found[1]], change / change.max(), rtol=0.05)
    assert found[0] > 0.8


def test_of_stationary_kernels_it_is_how_far_the_correlation_falls():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 2))
    kernel = 1.0 * RBF([1.0, 2.0]) + 0.5 * RBF([2.0, 0.7])
    found = {one.feature: one.value for one in relevances(fitted(kernel, X, X[:, 0]))}
    s = X.std(axis=0)
    fall = [
        1.0 - (np.exp(-0.5 * (s[j] / a) ** 2) + 0.5 * np.exp(-0.5 * (s[j] / b) ** 2)) / 1.5
        for j, (a, b) in enumerate([(1.0, 2.0), (2.0, 0.7)])
    ]
    np.testing.assert_allclose([found[0], found[1]], np.array(fall) / max(fall), rtol=1e-10)
