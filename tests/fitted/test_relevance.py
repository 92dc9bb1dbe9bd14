"""How much a feature matters is how much the function changes with it."""

import numpy as np

from itergp import RBF, IterGPRegressor, Linear
from itergp.fitted.relevance import relevances


def fitted(kernel, X, y):
    return IterGPRegressor(kernel=kernel, noise=0.01, learn=False, normalize=False).fit(X, y).fit_


def test_with_a_linear_part_the_feature_that_moves_the_function_is_the_most_relevant():
    """A linear part has one lengthscale for all features; what the data say of each is its slope."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) * np.array([2.0, 1.0, 5.0])
    X -= X.mean(axis=0)  # a linear kernel has no constant
    y = 3.0 * X[:, 0] - 4.0 * X[:, 1]
    found = relevances(fitted(1e-6 * RBF([3.0, 1.0, 2.0]) + 2.0 * Linear(1.0), X, y))
    slopes = np.array([3.0, 4.0, 0.0]) * X.std(axis=0)
    assert [one.feature for one in found] == [0, 1, 2]
    np.testing.assert_allclose([one.value for one in found], slopes / slopes.max(), atol=0.01)
    assert all(one.lengthscale is None for one in found)


def test_it_is_how_far_predictions_move_over_one_standard_deviation():
    """The oracle predicts each row, and each with one feature moved; also where a kernel has two lengthscales
    for each feature, and there are two targets."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 2))
    y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 0] + 0.3 * X[:, 1]])
    kernel = 1.0 * RBF([1.0, 2.0]) + 0.5 * RBF([2.0, 0.7])
    model = IterGPRegressor(kernel=kernel, noise=0.01, learn=False, normalize=False).fit(X, y)
    found = {one.feature: one.value for one in relevances(model.fit_)}
    moves = []
    for j in range(2):
        moved = X.copy()
        for x in moved:
            x[j] += X[:, j].std() if x[j] <= np.median(X[:, j]) else -X[:, j].std()
        moves.append(np.sqrt(np.mean((model.predict(moved) - model.predict(X)) ** 2)))
    np.testing.assert_allclose([found[0], found[1]], np.array(moves) / max(moves), rtol=1e-6)
